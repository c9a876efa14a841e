"""Verbs that need a released file only."""
