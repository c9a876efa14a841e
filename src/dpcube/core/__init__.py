"""TRUSTED. The code that a privacy audit must read, and nothing else.

Private rows, the exact counts made of them, the noise, the budget and the ledger are here. Nothing in this directory
imports anything of `dpcube` outside of it. `docs/research/audit.md` lists the modules.
"""
