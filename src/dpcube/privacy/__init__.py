"""TRUSTED. Budgets, exact noise and randomness; the proofs stand beside the code."""
