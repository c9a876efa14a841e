"""Limits of sources: sizes of files, texts, counts and SQL expressions."""

MAX_LINE = 2**20  # bytes of a line of CSV; longer ones are dropped
MAX_NAMES = 10_000_000  # names visited for one pattern of files: more than any table has
MAX_PATTERNS = 1000  # alternatives that the braces of a Spark path expand to
MAX_KEY = 2**62  # cells that one 64-bit grouping key numbers
MAX_SEARCHED_EDGES = 10_000  # elements of a sorted array that PostgreSQL searches
MAX_COMPARED_VALUES = 16  # listed values that are compared one by one; more are looked up
MAX_TUPLE_PARTS = 100  # of a tuple that names a privacy unit
MAX_COUNT = 2**53  # of a cell of a table of counts
MAX_EXAMPLE = 60  # characters of a text that is shown to the owner of the table
MAX_RECORD_TEXT = 200  # characters of a text that record linkage compares
