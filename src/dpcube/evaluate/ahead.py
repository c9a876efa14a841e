"""Compiling ahead: the loops that releases and answers need are run once on the bundled table, and nothing is kept."""

from pathlib import Path
from tempfile import TemporaryDirectory

from dpcube import datasets
from dpcube.analyst import Release
from dpcube.compiled import tell_when_compiling
from dpcube.curator.publishing import publish
from dpcube.domain import Domain
from dpcube.strategy import BY_NAME

QUESTION = "age between 30 and 39 and sex = 'Female'"
SQL = "SELECT sex, count(*), avg(age) FROM cube WHERE age >= 30 GROUP BY sex"


def compile_ahead() -> int:
    """Run what each built-in strategy and its answers need, and return how many loops were compiled anew."""
    made = [0]

    def count_one() -> None:
        made[0] += 1

    tell_when_compiling(count_one)
    table, domain = datasets.adult_table(), Domain.load(datasets.adult_domain())
    with TemporaryDirectory() as folder:
        for name in BY_NAME:
            path = Path(folder) / f"{name}.dpcube"
            publish(table, domain, epsilon="1", strategy=name, ledger=None).save(path)
            _ask(Release.open(path))
    return made[0]


def _ask(release: Release) -> None:
    release.count(QUESTION)
    release.explain()
    release.sql(SQL, error=True)
    release.group_by("age").table(errors=True)
    release.synthesize(1000, seed=0)
