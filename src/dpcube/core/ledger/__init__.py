"""The ledger of a private table: what was charged to it, in a file that survives crashes and concurrent processes."""
