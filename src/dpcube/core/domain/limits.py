"""Limits of domains: sizes of declarations, and lengths of text that sources read."""

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
