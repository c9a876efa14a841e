"""Limits of a ledger's file, so that one from elsewhere costs little to read."""

MAX_FILE = 16 * 2**20  # bytes: tens of thousands of releases
KEPT_FREE = 2**20  # bytes of these that are left for the entries that follow a charge
MAX_VALUE = 2**20  # bytes of one value
MAX_NOTE = 10_000  # characters of a name or a note that is written; what is read may be longer
MAX_STEPS = 10**8  # of SQLite's virtual machine; reading a ledger of 16 MiB takes a hundredth
MAX_DENOMINATOR_BITS = 2**14  # of the common denominator of all amounts
