"""Commands that verify the claims of this package on public data, and compile its loops in advance."""
