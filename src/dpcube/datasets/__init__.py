"""The bundled public table: UCI's Adult census extract of 1994.

`adult/LICENSE.md` states its licence and what was changed.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["ADULT_QUESTIONS", "adult_domain", "adult_table"]

ADULT_QUESTIONS = (
    "age between 30 and 39",
    "age between 30 and 39 and sex = 'Female'",
    "hours-per-week >= 50 and income = '>50K'",
    "marital-status = 'Divorced' and age < 40",
    "sex = 'Male' and marital-status in ('Widowed', 'Separated')",
    "age >= 60 and hours-per-week < 20 and income = '<=50K'",
)
"""Questions of `dpcube demo` about the demo's five attributes."""


def adult_table() -> Path:
    """Return the path of the Adult table: Parquet, UCI's 32,561 training rows and then its 16,281 test rows.

    >>> adult_table().name
    'adult.parquet'
    """
    return _bundled("adult.parquet")


def adult_domain(*, full: bool = False) -> Path:
    """Return the path of the Adult table's domain file: the five attributes of the demo, or all fifteen.

    >>> adult_domain().name, adult_domain(full=True).name
    ('adult.toml', 'adult-full.toml')
    """
    return _bundled("adult-full.toml" if full else "adult.toml")


def _bundled(name: str) -> Path:
    # A plain path, as DuckDB needs one; an installed wheel is always unpacked.
    return Path(str(files(__name__) / "adult" / name))
