"""Commands that open a private table or its ledger."""
