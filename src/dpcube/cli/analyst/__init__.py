"""Commands that need only a release file."""
