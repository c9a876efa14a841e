"""Limits of domains, sources and ledgers: sizes of declarations and files, lengths of texts, numbers that are exact."""

# Domains.
MAX_ATTRIBUTES = 64  # as many axes as a NumPy array can have
MAX_BINS = 2**31  # of an attribute
MAX_LEVEL_BINS = 2**20  # of an attribute that has a hierarchy
MAX_NUMBER = 2**53  # whole numbers below it, and their successors, are exact in the coordinate's double precision
MAX_EXACT_WHOLE = 2**53 - 1  # up to here every whole number is a double of its own
MAX_DECIMALS = 22  # 10^22 is the largest power of ten that doubles represent exactly
MAX_LISTED_TEXTS = 1000  # of one key, such as null_text
MAX_SIGN = 20  # characters of a prefix or suffix of numbers
MAX_FORMAT = 100  # characters of a date format
MAX_PARSED_TEXT = 1000  # characters of text that is parsed as a number or a date
MAX_TEXT = 2**20  # characters read of any other text; bytes of the name of a privacy unit
MAX_DOMAIN_FILE = 16 * 2**20  # bytes
MAX_KEY_DEPTH = 16  # parts of a dotted TOML key: the work of tomllib grows with the square of their number
MAX_SPELLING_WORDS = 2000  # words that a misspelt one is compared with

# The file of a ledger, so that one from elsewhere costs little to read.
MAX_LEDGER_FILE = 16 * 2**20  # bytes: tens of thousands of releases
LEDGER_RESERVE = 2**20  # bytes of these that are left for the entries that follow a charge
MAX_LEDGER_VALUE = 2**20  # bytes of one value
MAX_LEDGER_NOTE = 10_000  # characters of a name or a note that is written; what is read may be longer
MAX_LEDGER_STEPS = 10**8  # of SQLite's virtual machine; reading a ledger of 16 MiB takes a hundredth
MAX_DENOMINATOR_BITS = 2**14  # of the common denominator of all amounts

# Sources.
MAX_LINE = 2**20  # bytes of a line of CSV; longer ones are dropped
MAX_NAMES = 10_000_000  # names visited for one pattern of files: more than any table has
MAX_PATTERNS = 1000  # alternatives that the braces of a Spark path expand to
MAX_KEY_CELLS = 2**62  # cells that one 64-bit grouping key numbers
MAX_SEARCHED_EDGES = 10_000  # elements of a sorted array that PostgreSQL searches
MAX_COMPARED_VALUES = 16  # listed values that are compared one by one; more are looked up
MAX_TUPLE_PARTS = 100  # of a tuple that names a privacy unit
MAX_COUNT = 2**53  # of a cell of a table of counts
MAX_EXAMPLE = 60  # characters of a text that is shown to the owner of the table
MAX_RECORD_TEXT = 200  # characters of a text that record linkage compares
