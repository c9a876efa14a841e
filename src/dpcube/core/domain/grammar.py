"""What text is read as a number or a date, in every engine.

Said once, as regular expressions that every engine runs alike before it casts, so that no text means one thing in a
file and another in a database, and no cast meets text that it refuses:

- a number (`NUMBER`): digits with or without a point, a sign and an exponent of at most four digits; or `inf`,
  `infinity`, `nan` in any case, with or without a sign; blanks around it. It is rounded to the nearest double, which
  beyond the greatest double is infinite;
- a date (`DATE`): a day of the Gregorian calendar from 0001-01-01 to 9999-12-31, as YYYY-MM-DD; blanks around it.
  With a time behind it (`ISO` in `reading.py`) it is a date too: the day of that moment.

Either has at most `LONGEST_READ` characters in all, and no pattern or cast is tried on longer text: on hundreds of
megabytes, some engines' raise. Of other text the first `LONGEST_TEXT` characters are read, so that no row is larger
than an engine can hold together, whatever it is made of.

The day of a time without a time zone is the one it says; of one with a zone, its day in UTC, or in a declared zone.

Blanks are ASCII's spaces, tabs and ends of lines; no other digits than ASCII's are. Text is compared byte by byte:
case, trailing spaces and the ways to compose a character (NFC, NFD) all matter.
"""

from dpcube.core.domain.reading import BLANKS

DIGITS = "(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
INFINITY = "[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
NAN = "[nN][aA][nN]"
NUMBER = f"[{BLANKS}]*[+-]?(?:{DIGITS}|{INFINITY}|{NAN})[{BLANKS}]*"
WHOLE_NUMBER = f"[{BLANKS}]*([0-9]+)[.]0*[{BLANKS}]*"  # a whole number with a fraction of zeros; its digits are a group
LONGEST_READ = 1000  # characters of text that is read as a number or a date
UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # a text that no attribute knows
LONGEST_TEXT = 2**20  # of any other text, characters that are read; bytes of a unit's name

_LONG = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
_SHORT = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
DAY = f"(?:[0-9]{{4}}-(?:{_LONG}|{_SHORT}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP})"
DATE = f"[{BLANKS}]*{DAY}[{BLANKS}]*"
MIDNIGHT = f"[{BLANKS}]*{DAY}(?:[tT ]00:00(?::00(?:[.,]0*)?)?)?[{BLANKS}]*"  # a day alone, or its first moment
CLOCK = f"[{BLANKS}]*(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,]0*)?)?[{BLANKS}]*"  # a time of day
SHORTEST_MOMENT = 16  # characters of a date with a time: 2026-03-01T08:30
