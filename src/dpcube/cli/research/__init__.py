"""Verbs that check the claims of this package on public data, and that compile its loops."""
