"""Privacy ledger of a table: its charges, in a file that survives crashes and concurrent processes."""
