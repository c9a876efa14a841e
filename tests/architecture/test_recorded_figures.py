"""Every page with measured figures says of which code they are, and says so visibly once that code has changed."""

import json
from pathlib import Path

import pytest
import recorded
from recorded import MARK, Record, Records, line_of, problems, with_line, without_line


def test_figures_are_of_the_code_or_their_page_says_that_they_are_older() -> None:
    """What fails names the page, the command that measures its figures again, and the one that marks them as older."""
    assert problems(Records.load()) == []


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one module and one page, whose figures are of that module."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "benchmarks").mkdir()
    module = tmp_path / recorded.PACKAGE / "strategy" / "default.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""A strategy."""\n\nCONSTANT = 4\n', encoding="utf-8")
    for page in ("README.md", "benchmarks/README.md", "docs/figures.md"):
        (tmp_path / page).write_text("# Title\n\nAn error of 27.8 rows.\n", encoding="utf-8")
    monkeypatch.setattr(recorded, "ROOT", tmp_path)
    monkeypatch.setattr(recorded, "RECORDS", tmp_path / "docs" / "recorded.json")
    figures = Record("docs/figures.md", ("default",), "make accuracy", commit="abc")
    kept = Records({"default": ["strategy"]}, {figures.page: figures}, ["README.md", "benchmarks/README.md"])
    kept.records[figures.page] = Record(figures.page, figures.measures, figures.command, "abc", kept.digest(figures))
    kept.save()
    recorded.write_line(kept, figures.page)
    return tmp_path


def found(house: Path) -> str:
    return "\n".join(problems(Records.load()))


def change(house: Path, text: str) -> None:
    (house / recorded.PACKAGE / "strategy" / "default.py").write_text(text, encoding="utf-8")


def test_a_change_of_the_code_is_noticed_and_a_line_on_the_page_answers_it(house: Path) -> None:
    page = house / "docs" / "figures.md"
    assert found(house) == ""
    assert line_of(page.read_text(encoding="utf-8")) == MARK
    change(house, '"""A strategy."""\n\nCONSTANT = 5\n')
    assert "docs/figures.md: does not say of which code its figures are (recorded: abc); measure them" in found(house)
    assert "make accuracy" in found(house)
    assert recorded.main(["--stale", "docs/figures.md"]) == 0
    assert "measured at commit abc or earlier, and not again" in line_of(page.read_text(encoding="utf-8"))
    change(house, '"""A strategy."""\n\nCONSTANT = 4\n')
    assert "python tools/recorded.py --stale docs/figures.md" in found(house)  # the page says too much now
    assert recorded.main(["--stale-all"]) == 0
    assert page.read_text(encoding="utf-8") == f"# Title\n\n{MARK}\n\nAn error of 27.8 rows.\n"


@pytest.mark.parametrize(
    "text",
    [
        '"""Another docstring."""\n\n# a comment\nCONSTANT = 4\n',
        "CONSTANT = (\n    4\n)\n",
        '"""A strategy."""\n\nCONSTANT = 4\n"""What it is."""\n',
    ],
)
def test_words_and_layout_are_no_change(house: Path, text: str) -> None:
    change(house, text)
    assert found(house) == ""


def test_modules_that_come_and_go_are_a_change(house: Path) -> None:
    (house / recorded.PACKAGE / "strategy" / "more.py").write_text("", encoding="utf-8")
    assert "does not say of which code" in found(house)
    (house / recorded.PACKAGE / "strategy" / "more.py").unlink()
    (house / recorded.PACKAGE / "strategy_of_another.py").write_text("", encoding="utf-8")
    assert found(house) == ""
    held = json.loads(recorded.RECORDS.read_text(encoding="utf-8"))
    held["groups"]["default"].append("strategy/gone.py")
    recorded.RECORDS.write_text(json.dumps(held), encoding="utf-8")
    assert "names strategy/gone.py, which is not in src/dpcube" in found(house)


def test_a_page_that_nobody_declared_is_noticed(house: Path) -> None:
    (house / "docs" / "new.md").write_text("# New\n\n12 ms.\n", encoding="utf-8")
    assert found(house).startswith("docs/new.md: is not in docs/recorded.json")
    (house / "docs" / "new.md").unlink()
    (house / "README.md").write_text(f"# Title\n\n{MARK}\n", encoding="utf-8")
    assert "README.md: says how old its figures are, and docs/recorded.json says that it has none" in found(house)


def test_a_page_without_figures_yet_says_so(house: Path) -> None:
    held = json.loads(recorded.RECORDS.read_text(encoding="utf-8"))
    held["pages"]["docs/figures.md"] |= {"commit": "", "digest": ""}
    recorded.RECORDS.write_text(json.dumps(held), encoding="utf-8")
    assert "docs/figures.md" in found(house)
    assert recorded.main(["--stale", "docs/figures.md"]) == 0
    assert "not recorded yet: <code>make accuracy</code>" in (house / "docs" / "figures.md").read_text(encoding="utf-8")


def test_a_line_is_put_in_replaced_and_taken_out_without_a_trace() -> None:
    page = "# Title\n\nWords.\n\nMore.\n"
    marked = with_line(page, f"{MARK}one")
    assert line_of(with_line(marked, f"{MARK}two")) == f"{MARK}two"
    assert without_line(marked) == without_line(page) == page
