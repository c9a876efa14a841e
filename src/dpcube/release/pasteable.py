"""Shell quoting of names from files, for commands that a user pastes.

Names in a domain file, and names of files, may contain anything; a command shown for pasting must mean what it says,
and do nothing else.
"""

import re
import shlex
from pathlib import Path

from dpcube.core.domain import Attribute, Domain

MAX_QUESTION_LENGTH = 200
"""A longer one is no example."""
PLAIN_NAME = re.compile(r"[^\W\d][\w-]*")
MEANT_IN_DOUBLE_QUOTES = re.compile(r'["$`\\!]')
KEYWORDS = frozenset({"and", "or", "not", "in", "is", "between", "null"})


def shell_word(text: str) -> str:
    r"""Return text as one word of a shell: in single quotes if need be, and what cannot be seen written out.

    >>> print(shell_word("age"), shell_word("x $(touch f)"), shell_word("it's"), shell_word("it's $5"))
    age 'x $(touch f)' "it's" 'it'"'"'s $5'
    >>> print(shell_word("a\tb'"))
    $'a\x09b\''
    """
    if not text.isprintable():
        return "$'" + "".join(map(_escaped, text)) + "'"
    if "'" in text and not MEANT_IN_DOUBLE_QUOTES.search(text):
        return f'"{text}"'
    return shlex.quote(text)


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def file_word(path: Path) -> str:
    """Return a path as one word of a shell that no command takes for an option.

    >>> print(file_word(Path("my release.dpcube")), file_word(Path("-o.dpcube")))
    'my release.dpcube' ./-o.dpcube
    """
    return shell_word(f"./{path}" if str(path).startswith("-") else str(path))


def example_question(domain: Domain) -> str:
    r"""Return a question that can be asked of a cube, about its first attribute that a short one can be asked about.

    >>> from dpcube.core.domain import Category, Integer
    >>> example_question(Domain(Integer("age", 0, 99))), example_question(Domain(Category("a b", ["it's"])))
    ('age >= 0', '"a b" = \'it\'\'s\'')
    """
    return next((asked for a in domain.attributes if len(asked := _question(a)) <= MAX_QUESTION_LENGTH), "")


def _question(attribute: Attribute) -> str:
    name = attribute.name
    if not PLAIN_NAME.fullmatch(name) or name.lower() in KEYWORDS:
        name = '"{}"'.format(name.replace('"', '""'))
    if not attribute.has_distances:
        return "{} = '{}'".format(name, attribute.labels()[0].replace("'", "''"))
    least = attribute.extent().split()[0]
    return f"{name} >= {least}" if attribute.is_numeric else f"{name} >= '{least}'"
