"""What fuzzing found, or would find only by luck: each once, with its bound."""

import io
import os
import struct
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bounds import bounded

from dpcube import Category, Domain, Integer, Release
from dpcube.core import memory
from dpcube.core.counter import BUDGET_UNITS
from dpcube.core.domain.limits import MAX_KEY_DEPTH
from dpcube.core.errors import DomainError, DpcubeError, MemoryLimitError, ReleaseFileError
from dpcube.curator import publish
from dpcube.measurements.pages import checked_rows
from dpcube.models.cell_sums import range_sums, summed_area_table
from forge import DOMAIN, changed, file_of, forged, make_release, members_of, parquet, table_of

WHOLE = file_of(make_release())
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


def varint(number: int) -> bytes:
    """A whole number as Thrift's compact protocol writes it."""
    number, octets = number << 1, []
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    return bytes([*octets, number])


def page_bomb(*, rows: int = 2500, unpacked: int = 200 * 2**20) -> bytes:
    """A Parquet file whose footer is honest and whose one page is zeros that unpack to much more."""
    random = np.random.default_rng(0).integers(-(2**62), 2**62, rows)
    good = parquet({"noisy_count": random}, compression="zstd", use_dictionary=False, write_statistics=False)
    column = pq.ParquetFile(io.BytesIO(good)).metadata.row_group(0).column(0)
    start, size = column.data_page_offset, column.total_compressed_size
    packed: bytes = pa.Codec("zstd").compress(bytes(unpacked), asbytes=True)

    def page(padding: int) -> bytes:
        body = packed + struct.pack("<II", 0x184D2A50, padding) + bytes(padding)  # a frame that is passed over
        header = b"\x15\x00\x15" + varint(unpacked) + b"\x15" + varint(len(body))
        return header + b"\x2c\x15" + varint(rows) + b"\x15\x00\x15\x06\x15\x06\x00\x00" + body

    fitting = page(2 * size - len(page(size)))
    assert len(fitting) == size
    return good[:start] + fitting + good[start + size :]


def test_pages_that_unpack_to_more_than_they_should_are_refused_packed(tmp_path: Path) -> None:
    bomb = page_bomb()
    reader = pq.ParquetFile(io.BytesIO(bomb))
    with pytest.raises(AssertionError, match="MiB more at its peak"), bounded(mebibytes=100), suppress(OSError):
        reader.read()  # it is a bomb
    domain = Domain((Integer(name="a", min=0, max=2499),)).dumps().encode()
    said = refusal(tmp_path, forged(WHOLE, domain=domain, cells=bomb, tree=None, boxes=None))
    assert "would unpack to more than its rows can take" in said
    assert len(bomb) < 25_000


def test_a_table_of_more_rows_than_fit_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cube that fits may have up to 64 measurements a cell, which a few bytes declare."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 16 * 20)
    rows = np.zeros(64 * 20, np.int64)
    many = parquet({"node": rows, "noisy_count": rows, "units": rows + 2**30})
    (tmp_path / "bad.dpcube").write_bytes(forged(WHOLE, boxes=many, cells=None))
    with pytest.raises(ReleaseFileError):
        Release.open(tmp_path / "bad.dpcube")
    (tmp_path / "bad.dpcube").write_bytes(
        forged(WHOLE, lambda m: m["noise"].update(cell_units=0), boxes=many, cells=None)
    )
    with pytest.raises(MemoryLimitError, match="a release with tables of"):
        Release.open(tmp_path / "bad.dpcube")


def test_every_footer_is_read_as_arrow_reads_it() -> None:
    """Whatever a footer says after a byte of it was changed, Arrow agrees or it is refused."""
    good = members_of(WHOLE)["boxes.parquet"]
    read = 0
    for place in range(4, len(good)):
        content = bytearray(good)
        content[place] ^= 0x55
        try:
            rows = checked_rows(bytes(content))
            table = pq.ParquetFile(io.BytesIO(bytes(content))).read()
        except Exception:  # ours, or any of Arrow's
            continue
        read += 1
        assert table.num_rows == rows
    assert read > 50


def test_a_tree_charged_more_than_64_bits_hold_is_refused(tmp_path: Path) -> None:
    """The sum of what a cell was charged would wrap, and claim less than it cost."""
    rows = 2**23 + 5
    many = parquet(
        {
            "node": np.zeros(rows, np.int64),
            "noisy_count": np.zeros(rows, np.int64),
            "units": np.full(rows, BUDGET_UNITS),
        }
    )
    cells = 2**18
    tree = parquet({"parent": [-1], "lower_0": [0], "upper_0": [cells]})
    domain = Domain((Integer(name="a", min=0, max=cells - 1),)).dumps().encode()
    content = forged(WHOLE, lambda m: m["noise"].update(cell_units=0), domain=domain, tree=tree, boxes=many, cells=None)
    assert len(content) < 200_000
    (tmp_path / "bad.dpcube").write_bytes(content)
    with pytest.raises(ReleaseFileError, match="costs more than the epsilon"):
        Release.open(tmp_path / "bad.dpcube")


@pytest.mark.parametrize("units", [1, 1000])
def test_counts_measured_with_less_than_can_be_drawn_are_refused(tmp_path: Path, units: int) -> None:
    said = refusal(tmp_path, forged(WHOLE, boxes=changed(table_of(WHOLE, "boxes"), "units", 0, units)))
    assert "an epsilon outside 1e-9 to 100" in said


@pytest.mark.parametrize("value", [[], {}, [[1]], float("nan"), float("inf"), "\ud800"])
def test_parameters_are_plain_values(tmp_path: Path, value: object) -> None:
    said = refusal(tmp_path, forged(WHOLE, lambda m: m["strategy"]["parameters"].update(slack=value)))
    assert "parameters are not what they should be" in said


@pytest.mark.parametrize("key", ["unit", "period"])
def test_half_of_a_character_is_no_text(tmp_path: Path, key: str) -> None:
    assert f"manifest's {key}" in refusal(tmp_path, forged(WHOLE, lambda m: m["privacy"].update({key: "\ud800"})))


def test_axes_of_one_cell_cost_nothing(tmp_path: Path) -> None:
    """The corners of a range would be 2 to the number of axes, of which a file may declare any number."""
    axes = 32
    domain = Domain(tuple(Integer(name=f"a{j}", min=0, max=0) for j in range(axes)))
    bounds = {f"lower_{j}": [0] for j in range(axes)} | {f"upper_{j}": [1] for j in range(axes)}
    members = {
        "domain": domain.dumps().encode(),
        "cells": parquet({"noisy_count": [5]}),
        "tree": parquet({"parent": [-1], **bounds}),
        "boxes": parquet({"node": [0], "noisy_count": [7], "units": [BUDGET_UNITS // 2]}),
    }
    (tmp_path / "a.dpcube").write_bytes(forged(WHOLE, **members))
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
    with pytest.raises(DomainError, match=r"takes 17\.8 MB of text and a release holds 16\.8 MB"):
        publish(tmp_path / "t.csv", domain, epsilon=Fraction(1))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
