"""Limits of record linkage: sizes of plans, programs, files and messages, the same for both parties."""

MAX_PLANNED_BLOCKS = 4096  # so that all pairs of boxes can be examined
MAX_OTHER_ROWS = 2**40  # rows of the other party
MAX_SESSION = 2**32  # bytes of a session file
MAX_RULES_KEY = 1000  # characters of the key of a rules file
MAX_RULE_WEIGHT = 1000  # of one comparison in a rules file

# Bounds of programs. `program.py` proves that with them nothing overflows.
MAX_COMPARISONS = 32
MAX_TEXT_BITS = 4096
MAX_EXACT_COLUMNS = 64
MAX_COMPARED = 2**28  # magnitude of a number
MAX_TOLERANCE = 2**27
MAX_WEIGHT = 2**20
MAX_DENOMINATOR = 1024  # of a Dice threshold
MAX_FEATURE_NUMBER = (
    10**8
)  # magnitude of numbers and tolerances made from records: far below MAX_COMPARED, which means missing

# Bounds of what the peer may send.
MAX_BLOCKS = 2**20
MAX_CANDIDATES = 2**22
MAX_BLOCK_ROWS = 2**20
MAX_BLOCK_PAIRS = 2**30  # pairs of records of two blocks, which need a byte each
MAX_PAYLOAD = 2**18  # bytes of a frame
MAX_MESSAGE = 2**28  # bytes
MAX_STREAMS = 64  # connections between the two engines
