import ast
import importlib
import inspect
import pkgutil
import re
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dpcube
from dpcube import curator
from dpcube.core import errors
from dpcube.core.domain import Domain
from dpcube.core.errors import DpcubeError

PACKAGES = ["dpcube", *(m.name for m in pkgutil.walk_packages(dpcube.__path__, "dpcube.") if m.ispkg)]
# Packages that are imported module by module: core for the audit, of the command line only main is called, a rival is
# loaded when its name is asked for.
CLOSED = {f"dpcube.{name}" for name in ("core", "core.ledger", "trees", "web", "cli", "research.strategies")}
CLOSED |= {f"dpcube.cli.{who}" for who in ("analyst", "curator", "research")}


def exports(package: ModuleType) -> list[str]:
    names: list[str] = package.__all__
    return names


def test_every_package_is_looked_at() -> None:
    assert {"dpcube.release", "dpcube.curator", "dpcube.core.sources", "dpcube.core.domain", "dpcube.queries"} <= set(
        PACKAGES
    )
    assert set(PACKAGES) >= CLOSED


@pytest.mark.parametrize("name", sorted(set(PACKAGES) - CLOSED))
def test_all_is_sorted_and_importable(name: str) -> None:
    package = importlib.import_module(name)
    assert exports(package) == sorted(set(exports(package)), key=lambda n: (not n.isupper(), n[0].islower(), n))
    for exported in exports(package):
        assert getattr(package, exported) is not None


@pytest.mark.parametrize("name", sorted(set(PACKAGES) - CLOSED - {"dpcube"}))
def test_all_is_everything_a_package_takes_from_its_own_modules(name: str) -> None:
    package = importlib.import_module(name)
    own = {
        public
        for public, value in vars(package).items()
        if not public.startswith("_") and str(getattr(value, "__module__", "")).startswith(name)
    }
    assert own <= set(exports(package))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_says_what_it_is(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


def test_names_of_dpcube_are_those_of_their_homes() -> None:
    assert sorted(dpcube._HOMES) == sorted(set(dpcube.__all__) - {"open"})
    for name, home in dpcube._HOMES.items():
        assert getattr(dpcube, name) is getattr(importlib.import_module(home), name)
        assert name in getattr(importlib.import_module(home), "__all__", [name])


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(dpcube.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    seen = {
        alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == dpcube._HOMES
    assert [ast.unparse(s) for s in block.body if isinstance(s, ast.Assign)] == ["open = Release.open"]


def test_a_star_import_takes_them_all() -> None:
    names: dict[str, object] = {}
    exec("from dpcube import *", names)
    assert set(dpcube.__all__) == set(names) - {"__builtins__"}
    assert set(dpcube.__all__) <= set(dir(dpcube))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'dpcube' has no attribute 'opne'"):
        dpcube.opne  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Nothing' from 'dpcube'"):
        from dpcube import Nothing  # noqa: F401
    with pytest.raises(AttributeError, match=r"module 'dpcube\.curator' has no attribute 'publsh'"):
        curator.publsh  # noqa: B018


def test_open_gives_a_release(tmp_path: Path) -> None:
    made = curator.publish(
        np.arange(6).reshape(2, 3), Domain.of_shape((2, 3)), epsilon=1, ledger=None, strategy="cells"
    )
    made.save(tmp_path / "r.dpcube")
    opened = dpcube.open(tmp_path / "r.dpcube")
    assert isinstance(opened, dpcube.Release)
    assert opened.digest == made.digest
    assert (opened.cells() == made.cells()).all()
    assert dpcube.open(str(tmp_path / "r.dpcube")).domain == made.domain


def test_the_version_is_the_installed_one() -> None:
    assert dpcube.__version__ == version("dpcube")


def drawn_tree() -> dict[str, str]:
    """Each error of the tree in the docstring, and the one it hangs from."""
    above: list[str] = []
    parents = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            del above[depth:]
            parents[found[2]] = above[-1] if above else "Exception"
            above.append(found[2])
    return parents


def test_the_tree_of_errors_is_as_drawn() -> None:
    there = {
        name: value.__base__.__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__ and value.__base__ is not None
    }
    assert drawn_tree() == there
    assert len(there) >= 9


def test_every_error_says_when_it_is_raised_and_is_caught_as_one() -> None:
    for name in drawn_tree():
        error = getattr(errors, name)
        assert issubclass(error, DpcubeError)
        assert error.__doc__
        assert getattr(dpcube, name) is error
    assert dpcube.DpcubeError is DpcubeError
    assert dpcube.core.errors is errors


def test_dpcube_holds_what_an_analyst_and_a_domain_need() -> None:
    asked = {"Answer", "Answers", "Release", "View", "Workload", "open"}
    declared = {"Category", "Date", "Domain", "Float", "Integer"}
    assert set(dpcube.__all__) == asked | declared | set(drawn_tree())
