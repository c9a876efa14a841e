"""The exceptions of dpcube.

    DpcubeError
    ├── InputError          bad input: the caller can correct it (exit code 2)
    │   ├── DomainError     an invalid domain, attribute or box
    │   ├── QueryError      a query that the cube cannot answer
    │   ├── SourceError     a table that cannot be read as declared
    │   └── ReleaseFileError  a damaged or inconsistent release file
    ├── RefusedError        a well-formed request that is refused (exit code 1)
    │   ├── BudgetError     more privacy budget than is left
    │   ├── EmptyTotalError a release stopped at its total, which is not above its error
    │   ├── KeptReleaseError  a release that was made, but not written or recorded as asked
    │   ├── LedgerError     a ledger that cannot be trusted or written
    │   ├── LinkageError    a peer, or a session with one, that cannot be trusted or ended early
    │   └── MemoryLimitError  more memory than is there
    ├── CompilerError       machine code for a loop could not be made on this machine (exit code 1)
    └── HiddenError         an internal error near private rows, of which only the place is shown (exit code 1)

Messages name the object, the offending value, what is allowed and the remedy. They never contain a row, a value
read from a row, or an exact count: an error message is an output like any other.
"""

from pathlib import Path


class DpcubeError(Exception):
    """Base class of all errors that dpcube raises."""


class InputError(DpcubeError):
    """Bad input; the message says what is allowed."""


class DomainError(InputError):
    """An invalid domain, attribute, box or partitioning."""


class QueryError(InputError):
    """A query that the cube cannot answer."""


class SourceError(InputError):
    """A table that cannot be read as declared."""


class ReleaseFileError(InputError):
    """A damaged or inconsistent release file."""


class RefusedError(DpcubeError):
    """A well-formed request that is refused."""


class BudgetError(RefusedError):
    """A request for more privacy budget than is left."""


class EmptyTotalError(RefusedError):
    """A release whose total is not above its error: it was stopped there, and the rest was not charged."""


class KeptReleaseError(RefusedError):
    """A release that was made and charged, but could not be written, or recorded in its ledger, as asked.

    It is the `release` of this error, and in the file at `path` unless that is None.
    """

    def __init__(self, message: str, release: object, path: Path | None) -> None:
        super().__init__(message)
        self.release = release
        self.path = path


class LedgerError(RefusedError):
    """A ledger that cannot be read, written or understood: refused rather than guessed."""


class LinkageError(RefusedError):
    """A peer that is refused or gone, or a session of linkage that did not come to its end."""


class MemoryLimitError(RefusedError):
    """A request that needs more memory than the machine has."""


class CompilerError(DpcubeError):
    """A failure of the compiler of loops (Numba) or of its cache: nothing is wrong with the file or the question."""


class HiddenError(DpcubeError):
    """An internal error in code that handles private rows: its text is withheld, because it may quote one."""
