"""What fuzzing found, or would find only by luck: each once, with its bound."""

import io
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from bounds import bounded

from dpcube import Category, Domain, Integer, Release
from dpcube.core import memory
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.errors import DomainError, DpcubeError, MemoryLimitError, ReleaseFileError
from dpcube.core.limits import MAX_KEY_DEPTH
from dpcube.curator import publish
from dpcube.measurements import Marginal
from dpcube.measurements.measurements import MAX_SUMMED_UNITS
from dpcube.models.cell_sums import range_sums, summed_area_table
from forge import DOMAIN, array_of, changed, file_of, forged, make_release, make_release_of, members_of, zipped

WHOLE = file_of(make_release())
CELLS = file_of(make_release_of(Marginal.from_cells(np.zeros(DOMAIN.shape, np.int64), BUDGET_UNITS)))
AGE = '[[attribute]]\nname = "age"\ntype = "integer"\nmin = 0\nmax = 9\n'


def refusal(place: Path, content: bytes) -> str:
    """Open a hostile file and return what is said of it."""
    (place / "bad.dpcube").write_bytes(content)
    with bounded(seconds=2, mebibytes=100), pytest.raises(DpcubeError) as caught:
        Release.open(place / "bad.dpcube")
    return str(caught.value)


# --- domain files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deep",
    [
        "a." * 200_000 + "a = 1",
        '"a" . ' * 100_000 + "a = 1",
        "[" + "a." * 200_000 + "a]",
        'x = ["""a"""", {' + "a." * 200_000 + 'a = 1}, "b"]',
        "x = ['''a'''', {" + "a." * 200_000 + "a = 1}, 'b']",
        'x = "\\"" # "\n' + "a." * 200_000 + "a = 1",
    ],
    ids=["bare", "quoted", "table", "after four quotes", "after four apostrophes", "after a comment"],
)
def test_keys_of_many_parts_are_refused_before_they_are_parsed(deep: str) -> None:
    """The parser's work grows with their square: 40 kB took 4 seconds, and a file may have 400 times as much."""
    with bounded(seconds=2), pytest.raises(DomainError, match=f"has dotted keys of {MAX_KEY_DEPTH} or more parts"):
        Domain.loads(AGE + deep)


@pytest.mark.parametrize("value", ["a." * 100, "1.2" * 50, "# a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s", '"' * 9, "'''"])
def test_dots_in_values_and_comments_are_no_keys(value: str) -> None:
    domain = Domain((Category(name="a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s", values=(value, "other")),))
    assert Domain.loads(f"# {value}\n{domain.dumps()}") == domain


@pytest.mark.parametrize("text", ["a" * 10**6, "a " * 10**6, '"a" ' * 10**6, "'" * 10**6, '"' * 10**6, "a.\n" * 10**6])
def test_looking_for_deep_keys_takes_linear_time(text: str) -> None:
    with bounded(seconds=4), pytest.raises(DomainError):
        Domain.loads(text)


def test_a_value_listed_twice_is_found_in_linear_time() -> None:
    values = [*map(str, range(300_000)), "299999"]
    with bounded(seconds=4), pytest.raises(DomainError, match="lists the value '299999' twice"):
        Category(name="x", values=tuple(values))


def test_a_domain_of_more_attributes_than_an_array_has_axes() -> None:
    text = "".join(AGE.replace("age", f"a{i}").replace("9", "0") for i in range(70))
    with pytest.raises(DomainError, match="a domain has at most 64 attributes, got 70"):
        Domain.loads(text)


@pytest.mark.parametrize("special", ["fifo", "/dev/zero", "/dev/stdin"])
def test_pipes_and_devices_are_refused_unopened(tmp_path: Path, special: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "lists.toml").write_text(f'[[attribute]]\nname = "x"\ntype = "category"\nvalues_from = "{special}"\n')
    script = """
import sys
from dpcube import Domain, DpcubeError, Release
for opening, name in ((Domain.load, sys.argv[1]), (Domain.load, "lists.toml"), (Release.open, sys.argv[1])):
    try:
        opening(name)
    except DpcubeError as error:
        print(error)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, special], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read().count("it is not a regular file") == 3


# --- release files -----------------------------------------------------------------------------------------------


def array_bomb(*, rows: int = 2500, unpacked: int = 200 * 2**20) -> bytes:
    """A file whose array is declared as it should be, and whose member is zeros that unpack to much more."""
    domain = Domain((Integer(name="a", min=0, max=rows - 1),)).dumps().encode()
    honest = forged(CELLS, over(1), domain=domain, **{"1.counts": np.zeros(rows, np.int8)})
    members = members_of(honest)
    size = len(members["1.counts.npy"])
    members["1.counts.npy"] += bytes(unpacked)
    packed = bytearray(zipped(list(members.items())))
    central = packed.index(b"PK\x01\x02")
    while packed[central + 46 : central + 58] != b"1.counts.npy":
        central = packed.index(b"PK\x01\x02", central + 1)
    struct.pack_into("<I", packed, central + 24, size)
    return bytes(packed)


def over(axes: int) -> Callable[[dict[str, Any]], None]:
    """The change of a manifest that makes its cells those of a cube of so many axes."""
    return lambda manifest: manifest["measurements"][0].update(axes=list(range(axes)))


def test_arrays_that_unpack_to_more_than_they_should_are_refused_packed(tmp_path: Path) -> None:
    bomb = array_bomb()
    assert len(bomb) < 250_000
    with (
        pytest.raises(AssertionError, match="MiB more at its peak"),
        bounded(mebibytes=100),
        zipfile.ZipFile(io.BytesIO(bomb)) as archive,
        suppress(zipfile.BadZipFile),
    ):
        archive.read("1.counts.npy")  # it is a bomb
    with bounded(mebibytes=20):
        refusal(tmp_path, bomb)


def test_arrays_of_more_numbers_than_fit_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cube that fits may have up to 64 measurements a cell, which a few bytes declare."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 16 * 20)
    rows = np.zeros(64 * 20, np.int64)
    many = {"2.step": rows, "2.counts": rows, "2.units": rows + 2**30}
    (tmp_path / "bad.dpcube").write_bytes(forged(WHOLE, **many))
    with pytest.raises(MemoryLimitError, match="a release with arrays of"):
        Release.open(tmp_path / "bad.dpcube")


def test_every_header_is_read_as_numpy_reads_it() -> None:
    """Whatever a header says after a byte of it was changed, it is what was declared, or it is refused."""
    good = members_of(WHOLE)["2.lower.npy"]
    for place in range(128):
        content = bytearray(good)
        content[place] ^= 0x55
        with pytest.raises(ReleaseFileError, match="does not match its manifest"):
            opened_of(forged(WHOLE, **{"2.lower": bytes(content)}))


def opened_of(content: bytes) -> Release:
    with TemporaryDirectory() as place:
        (Path(place) / "bad.dpcube").write_bytes(content)
        return Release.open(Path(place) / "bad.dpcube")


def one_box(shape: tuple[int, ...]) -> dict[str, Any]:
    """The arrays of a tree that is one box."""
    return {"above": [0], "lower": [[0] for _ in shape], "upper": [[side] for side in shape]}


def test_a_tree_charged_more_than_64_bits_hold_is_refused(tmp_path: Path) -> None:
    """The sum of what a cell was charged would wrap, and claim less than it cost."""
    rows, cells = 2**23 + 5, 2**18
    zeros = np.zeros(rows, np.int64)
    boxes = one_box((cells,)) | {"step": zeros, "counts": zeros, "units": zeros + BUDGET_UNITS}
    domain = Domain((Integer(name="a", min=0, max=cells - 1),)).dumps().encode()

    def change(manifest: dict[str, Any]) -> None:
        over(1)(manifest)
        manifest["measurements"][1]["units"] = MAX_SUMMED_UNITS

    arrays = {f"2.{name}": array for name, array in boxes.items()}
    content = forged(WHOLE, change, domain=domain, **{"1.counts": np.zeros(cells, np.int64)}, **arrays)
    assert len(content) < 300_000
    (tmp_path / "bad.dpcube").write_bytes(content)
    with pytest.raises(ReleaseFileError, match="costs more than the epsilon"):
        Release.open(tmp_path / "bad.dpcube")


@pytest.mark.parametrize("units", [1, 1000])
def test_counts_measured_with_less_than_can_be_drawn_are_refused(tmp_path: Path, units: int) -> None:
    said = refusal(tmp_path, forged(WHOLE, **{"2.units": changed(array_of(WHOLE, "2.units"), 0, units)}))
    assert "an epsilon outside 1e-9 to 100" in said


@pytest.mark.parametrize("value", [[], {}, [[1]], float("nan"), float("inf"), "\ud800"])
def test_parameters_are_plain_values(tmp_path: Path, value: object) -> None:
    said = refusal(tmp_path, forged(WHOLE, lambda m: m["strategy"]["parameters"].update(slack=value)))
    assert "invalid parameters of the strategy" in said


@pytest.mark.parametrize("key", ["unit", "period"])
def test_half_of_a_character_is_no_text(tmp_path: Path, key: str) -> None:
    assert f"invalid value of '{key}'" in refusal(
        tmp_path, forged(WHOLE, lambda m: m["privacy"].update({key: "\ud800"}))
    )


def test_axes_of_one_cell_cost_nothing(tmp_path: Path) -> None:
    """The corners of a range would be 2 to the number of axes, of which a file may declare any number."""
    axes = 32
    domain = Domain(tuple(Integer(name=f"a{j}", min=0, max=0) for j in range(axes)))
    boxes = one_box((1,) * axes) | {"step": [0], "counts": [7], "units": [BUDGET_UNITS // 2]}
    arrays = {"1.counts": np.full((1,) * axes, 5), **{f"2.{name}": array for name, array in boxes.items()}}
    (tmp_path / "a.dpcube").write_bytes(forged(WHOLE, over(axes), domain=domain.dumps().encode(), **arrays))
    (tmp_path / "whole.dpcube").write_bytes(WHOLE)
    Release.open(tmp_path / "whole.dpcube").count()  # on a new machine this compiles, which is not what is bounded
    with bounded(seconds=3):
        assert Release.open(tmp_path / "a.dpcube").count().value == pytest.approx(7)


def test_range_sums_of_every_range_of_a_small_cube() -> None:
    cells = np.arange(24.0).reshape(3, 1, 4, 2) ** 2
    table = summed_area_table(cells)
    lower = np.array([[a, 0, b, c] for a in range(3) for b in range(4) for c in range(2)])
    for step in range(1, 4):
        upper = np.minimum(lower + step, cells.shape)
        sums = [cells[tuple(map(slice, low, high))].sum() for low, high in zip(lower, upper, strict=True)]
        assert range_sums(table, lower, upper).tolist() == sums


def test_a_link_that_leads_nowhere_is_refused_before_the_charge(tmp_path: Path) -> None:
    (tmp_path / "new.dpcube").symlink_to("nowhere")
    (tmp_path / "t.csv").write_text("age,sex\n21,F\n")
    with pytest.raises(ReleaseFileError, match="never overwrites"):
        publish(tmp_path / "t.csv", DOMAIN, epsilon=Fraction(1), save_to=tmp_path / "new.dpcube")
    assert not (tmp_path / "t.ledger").exists()


def test_a_domain_that_could_not_be_read_again_is_refused_before_the_charge(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("code\na\n")
    domain = Domain((Category(name="code", values=("a", "b" * (17 * 2**20))),))
    with pytest.raises(DomainError, match=r"takes 17\.8 MB of text, and a release file allows 16\.8 MB"):
        publish(tmp_path / "t.csv", domain, epsilon=Fraction(1))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
