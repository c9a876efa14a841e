"""Commands at random: every verb with words of every kind, among files that are whole, odd, missing or no files."""

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import releases
from hypothesis import strategies as st

from dpcube.cli import main
from dpcube.core.domain import Category, Domain, Integer
from dpcube.core.ledger.ledger import Ledger
from dpcube.link.blocking import BlockFile
from dpcube.link.rules import MatchingRules
from dpcube.research import experiment
from dpcube.testing import SilentNoise

MAX_WAIT = 30


def _model() -> bytes:
    """Return a model file whose features t.csv has."""
    domain = Domain(Integer("age", 0, 9), Category("sex", ["F", "M"]))
    counts = np.arange(20).reshape(10, 2)
    return experiment(counts, epsilon=1, noise=SilentNoise(), domain=domain).train("sex").dumps().encode()


def _blocks() -> bytes:
    """Return a blocks file for the rules below and t.csv."""
    made = experiment(np.arange(10), epsilon=1, noise=SilentNoise(), domain=Domain(Integer("age", 0, 9)))
    return BlockFile.planned(made, MatchingRules.loads(RULES), epsilon="1").dumps().encode()


RULES = 'threshold = 1\n[[compare]]\ncolumn = "sex"\nkind = "exact"\n'
DOMAIN = '[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 9\n'
FILES = {
    "t.csv": b"age,sex\n3,F\n4,M\n,\n",
    "t.tsv": b"age\tsex\n3\tF\n",
    "d.toml": DOMAIN.encode(),
    "drafted.toml": b"drafted_from_data = true\n" + DOMAIN.encode(),
    "odd.toml": DOMAIN.replace('"age"', '"\\u001b[2J"').encode(),
    "r.dpcube": releases.WHOLE,
    "cut.dpcube": releases.WHOLE[:-100],
    "empty": b"",
    "empty.csv": b"",
    "empty.parquet": b"",
    "noise.parquet": bytes(range(256)),
    "latin.csv": b"\xff\xfe,\xe9\n1,2\n",
    "line\nbreak.csv": b"age\n1\n",
    "\udcff.csv": b"age\n1\n",
    "\udcff.toml": DOMAIN.encode(),
    "\udcff.dpcube": releases.WHOLE,
    "\u202e.dpcube": releases.WHOLE,
    "closed.csv": b"age\n1\n",
    "closed.toml": DOMAIN.encode(),
    "closed.dpcube": releases.WHOLE,
    "-dash.csv": b"age\n1\n",
    "m.json": _model(),
    "cut.json": _model()[:-100],
    "rules.toml": RULES.encode(),
    "blocks.json": _blocks(),
    "key": b"0" * 64 + b"\n",
}
PLACES = [
    *FILES,
    *("", ".", "..", "/", "-", "--", " ", "none.csv", "none.parquet", "none.toml", "none.dpcube", "none/x.csv"),
    *("fifo", "fifo.csv", "fifo.parquet", "loop", "loop.csv", "loop.dpcube", "dangling.dpcube", "folder", "folder.csv"),
    *("/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "t.csv/x", "x" * 300, "x" * 300 + ".csv", "l.ledger"),
    *("postgresql://", "postgresql://u:secret@h/d#t", "postgres://[", "spark:x.csv", "~", "$HOME", "*.csv"),
    *("n1.dpcube", "n2.dpcube", "n3.toml", "n4.ledger", "\udcfe.dpcube", "\udcfe.toml", "\udcfe.ledger", "a\nb.dpcube"),
]
WORDS = [
    *(
        "0",
        "1",
        "-1",
        "0.5",
        "1/3",
        "1e-3",
        "1e999999999",
        "nan",
        "inf",
        "1/0",
        "9" * 5000,
        "٣",
        "x",
        "",
        " ",
        "\udcff",
    ),
    *("age", "sex", "age,sex", ",", "age,age", "\x1b[2J", "cells", "dpcube", "uniform", "2026-01-01", "2026-99-99"),
    *(
        "age = 3",
        "age between 1 and",
        "sex = 'F'",
        "age = '",
        "`\udcff` = 1",
        "(" * 200,
        "age in (1,2)",
        "\\t",
        ";",
        "\n",
    ),
]
places, words = (
    st.sampled_from(PLACES),
    st.sampled_from(WORDS) | st.text(st.characters(exclude_characters="\0"), max_size=9),
)
anything = places | words
CSV = {"--delimiter": words, "--names": words, "--null-text": words, "--encoding": words}
OPTIONS: dict[tuple[str, ...], dict[str, st.SearchStrategy[str] | None]] = {
    ("domain",): {"-o": places, "--columns": words, "--from-data": None, **CSV},
    ("check",): {"--domain": st.just("d.toml") | places, "--show-values": None, **CSV},
    ("release",): {
        **{
            "--domain": st.just("d.toml") | places,
            "--epsilon": st.just("1") | words,
            "-o": st.just("n.dpcube") | places,
        },
        **{
            "--strategy": st.just("cells") | words,
            "--queries": st.just("mixed") | words,
            "--questions": places,
            "--target": st.just("age") | words,
            "--ledger": places,
            "--total": st.just("2") | words,
            "--no-ledger": None,
            "--unit": st.just("sex") | words,
        },
        **{
            "--max-rows": st.just("2") | words,
            "--null-unit": st.just("each") | words,
            "--purpose": words,
            "--even-if-empty": None,
            "--explain": None,
            "--json": None,
            **CSV,
        },
    },
    ("ledger",): {"--json": None},
    ("ledger", "show"): {"--json": None},
    ("ledger", "init"): {"--total": st.just("1") | words, "--unit": words, "--purpose": words},
    ("ledger", "raise"): {"--total": words, "--purpose": words},
    ("info",): {"--json": None},
    ("count",): {"--confidence": st.just("0.5") | words, "--estimate": st.just("cells") | words, "--json": None},
    ("plot",): {
        **{"-o": st.sampled_from(["n.svg", "n.png", "n.html", "n.gif"]) | places, "--where": words, "--stages": None},
        **{"--confidence": st.just("0.5") | words, "--estimate": st.just("cells") | words, "--no-boxes": None},
    },
    ("report",): {"-o": st.just("n.html") | places, "--title": words},
    ("registry",): {
        **{"-o": st.just("n.yaml") | places, "--ledger": st.just("l.ledger") | places, "--name": words},
        **{"--curator": words, "--curator-type": st.just("Industry") | words, "--intended-use": words},
        **{"--region": words, "--published": words, "--author": words, "--units": words, "--data": words},
    },
    ("explore",): {
        **{"-o": st.just("n.html") | places, "--confidence": st.just("0.5") | words},
        "--estimate": st.just("cells") | words,
    },
    ("merge",): {"-o": st.just("n.dpcube") | places, "--json": None},
    ("train",): {
        **{"--target": st.just("age") | words, "-o": st.just("n.json") | places},
        **{"--estimate": st.just("cells") | words, "--json": None},
    },
    ("predict",): {
        **{"-o": st.sampled_from(["n.csv", "n.parquet"]) | places, "--confidence": st.just("0.5") | words},
        **{"--json": None},
    },
    ("block",): {
        **{"--rules": st.just("rules.toml") | places, "--epsilon": st.just("1") | words, "--delta": words},
        **{"-o": st.just("n.blocks") | places, "--max-rows": words, "--other-rows": words, "--json": None},
    },
    ("link",): {
        **{"--blocks": st.just("blocks.json") | places, "--rules": st.just("rules.toml") | places},
        **{"--session": st.just("n.session") | places, "--id": st.just("sex") | words, "--no-ledger": None},
        **{"--listen": st.just("0") | words, "--connect": st.just("127.0.0.1:1") | words, "--key": places},
        **{"-o": st.just("n.csv") | places, "--wait": st.sampled_from(["0", "0.1", "nan", "-1", "x"])},
        **{"--epsilon": words, "--delta": words, "--ledger": places, "--total": words, "--unit": words},
        **{"--max-rows": words, "--authority": places, "--new-key": places, "--json": None, **CSV},
    },
    ("sql",): {
        **{
            "--error": None,
            "--csv": None,
            "--confidence": st.just("0.5") | words,
            "--seconds": st.sampled_from(["1", "0", "x"]),
        },
        **{"--estimate": st.just("cells") | words, "--json": None},
    },
    ("synth",): {
        **{"-o": st.sampled_from(["n.csv", "n.parquet"]) | places, "--rows": st.sampled_from(["0", "9", "-1", "x"])},
        **{"--seed": words, "--estimate": st.just("cells") | words, "--json": None},
    },
    ("export",): {
        "-o": st.sampled_from(["n.csv", "n.parquet"]) | places,
        "--boxes": None,
        "--errors": None,
        "--json": None,
    },
    ("demo",): {"--epsilon": words.filter(lambda word: word not in ("1", "0.5", "1/3", "1e-3"))},
    (): {"--version": None, "-h": None},
}
NOT_FUZZED = {"plan", "coverage", "compare", "compile", "reproduce", "studio"}
"""Commands that take longer than an example may, or wait for a browser."""
GOOD: dict[tuple[str, ...], str] = {
    ("info",): "r.dpcube",
    ("count",): "r.dpcube",
    **dict.fromkeys((("sql",), ("synth",), ("export",)), "r.dpcube"),
    ("plot",): "r.dpcube",
    ("report",): "r.dpcube",
    ("registry",): "r.dpcube",
    ("explore",): "r.dpcube",
    ("merge",): "r.dpcube",
    ("train",): "r.dpcube",
    ("predict",): "m.json",
    ("block",): "r.dpcube",
    ("ledger", "init"): "n.ledger",
    ("ledger", "show"): "l.ledger",
}
NEEDED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("release",): ("--domain", "--epsilon", "-o"),
    ("ledger", "init"): ("--total",),
    ("demo",): ("--epsilon",),
    ("plot",): ("-o",),
    **dict.fromkeys((("synth",), ("export",)), ("-o",)),
    ("report",): ("-o",),
    ("registry",): ("--name", "--curator", "--curator-type", "--intended-use", "--region", "--published", "--author"),
    ("explore",): ("-o",),
    ("merge",): ("-o",),
    ("train",): ("--target", "-o"),
    ("block",): ("--rules", "--epsilon", "-o"),
    ("link",): ("--blocks", "--rules", "--session", "--id", "--wait"),
}


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    """Draw the words after `dpcube`."""
    verb = draw(st.sampled_from(sorted(OPTIONS)))
    options = OPTIONS[verb]
    chosen = {*NEEDED.get(verb, ()), *draw(st.lists(st.sampled_from(sorted(options)), max_size=3))}
    likely = GOOD.get(verb, "t.csv")
    given = [*verb, *([] if verb == ("demo",) else [draw(st.just(likely) | places)])]
    if verb in (("count",), ("plot",), ("sql",)) or draw(st.integers(0, 9)) == 0:
        given += draw(st.lists(anything, max_size=2))
    if verb == ("predict",):
        given.append(draw(st.just("t.csv") | places))
    if verb == ("merge",):
        given += draw(st.lists(st.just("r.dpcube") | places, max_size=2))
    for option in sorted(chosen):
        value = options[option]
        given += [option] if value is None else [option, draw(value)]
    if verb == ("release",) and draw(st.integers(0, 4)) == 0:
        given += ["--period", *draw(st.tuples(words, words, words))]
    return given


def furnish(place: Path) -> None:
    """Put files of every kind into a folder."""
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    for name in ("fifo", "fifo.csv", "fifo.parquet"):
        os.mkfifo(place / name)
    for name in ("loop", "loop.csv", "loop.dpcube"):
        (place / name).symlink_to(name)
    (place / "dangling.dpcube").symlink_to("nowhere")
    for name in ("folder", "folder.csv"):
        (place / name).mkdir()
    Ledger.create(place / "l.ledger", total=Fraction(3), purpose="\x1b[2J\n\u202e")
    (place / "key").chmod(0o600)
    for name in ("closed.csv", "closed.toml", "closed.dpcube"):
        (place / name).chmod(0)


@dataclass(frozen=True)
class Outcome:
    code: object
    out: str
    err: str


def run(arguments: list[str], place: Path) -> Outcome:
    """Run a command in this process; what it prints must be UTF-8, and it must end soon."""
    printed = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in printed)
    before, code = sys.argv, None
    sys.argv = ["dpcube", *arguments]
    with chdir(place), redirect_stdout(out), redirect_stderr(err), _ending():
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.argv = before
    return Outcome(code or 0, *(stream.getvalue().decode() for stream in printed))


@contextmanager
def _ending() -> Iterator[None]:
    """Interrupt what waits for something that never comes."""

    def interrupt(*_: object) -> None:
        msg = f"the command did not end in {MAX_WAIT} seconds"
        raise AssertionError(msg)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(MAX_WAIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def examine(arguments: list[str], place: Path) -> Outcome:
    """Run a command: it works, or says in one line why not."""
    outcome = run(arguments, place)
    assert outcome.code in (0, 1, 2), outcome
    if outcome.code == 0:
        # Predictions go to standard output, to be piped on, and what is said of them beside it.
        assert outcome.err == "" or (arguments[0] == "predict" and outcome.err.replace("\n", "").isprintable()), outcome
        if "--json" in arguments and "--explain" not in arguments and outcome.out.startswith(("{", "[")):
            json.loads(outcome.out)
    else:
        answers = arguments[0] == "count" and len(arguments) > 3  # a faulty question does not lose the others' answers
        assert outcome.out == "" or answers, outcome
        assert outcome.err.startswith("dpcube: "), outcome
        assert outcome.err.endswith("\n"), outcome
        assert outcome.err[:-1].isprintable(), outcome
        assert len(outcome.err) < 2000, outcome
        assert "internal error" not in outcome.err, outcome
    return outcome
