"""Spark source: a DataFrame, or Parquet files at a path, that Spark counts.

Rows stay in Spark: one GROUP BY is sent to it, and only occupied cells come back, computed by the SQL of `sql.py` in
Spark's dialect. Text is compared by bytes, without collations. Decimals become the nearest double, except where they
name privacy units. Spark's exceptions may contain rows and paths: they are replaced, never chained.
"""

import math
import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
from numpy.typing import NDArray

from dpcube.core.domain.grammar import UNKNOWN
from dpcube.core.domain.reading import BLANKS
from dpcube.core.errors import SourceError
from dpcube.core.limits import MAX_EXACT_WHOLE, MAX_PATTERNS, MAX_TEXT
from dpcube.core.sources.dialect import SPARK, literal
from dpcube.core.sources.lakehouse import refuse_parts
from dpcube.core.sources.names import identity, matched, refuse_twice
from dpcube.core.sources.sql import kind
from dpcube.core.sources.table import Scan, Table, imported, normalised, opened

SCHEME = "spark:"
SPARK_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
INFERRED = (
    "[+-]?[0-9]{4,6}-[0-9]{1,2}(?:-[0-9]{1,2}(?:[^0-9].*)?)?|[tT]?[0-9]{1,2}:[0-9]{1,2}.*|[-+0-9.eE]*[0-9.][dDfF]"
)
"""Texts beyond `grammar.py` that Spark may parse as a time, with a day of its own choice, or as a Java double."""
LOCAL = {  # a local session accepts connections from this machine only, and logs nothing that could contain a row
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def spark_path_table(address: str) -> Table:
    """Return a table that Spark reads from Parquet: spark: and a file, a directory or a pattern of either.

    The session is the active one, or a local one. CSV is refused: by Spark's own rules for malformed lines, one stray
    quote may change many rows.
    """
    path = address.removeprefix(SCHEME)
    name = f"the Spark table {path.rstrip('/').rpartition('/')[2]}"
    if re.search(r"\.(csv|tsv)(\.\w+)?$", path.lower()):
        msg = f"{name} is CSV, which dpcube reads without Spark: pass the path without 'spark:', or a Spark DataFrame"
        raise SourceError(msg)
    sql = imported("pyspark.sql", "spark")
    refuse_twice(name, _directories(path))
    frame = None
    with suppress(Exception):
        frame = (sql.SparkSession.getActiveSession() or _local_session(sql)).read.parquet(path)
    return spark_table(opened(frame, name), name=name)


def spark_table(frame: Any, *, name: str = "the Spark frame") -> Table:
    """Return a table that counts a DataFrame in Spark.

    Refused are frames that would read a file twice, and frames of data files of a lakehouse table that Spark listed by
    their names; `spark.read.format("delta")` and its like list them by the table's metadata.
    """
    read, is_classic = None, hasattr(frame, "_jdf")
    with suppress(Exception):
        relations = _relations(frame) if is_classic else [[frame]]
        read = [
            [(is_classic and _is_by_name(of), _file(file)) for of in group for file in of.inputFiles()]
            for group in relations
        ]
    for together in opened(read, name):
        refuse_twice(name, (file for _, file in together))
        refuse_parts(name, (Path(place) for by_name, (_, place) in together if by_name))
    if any(read or []) and not is_classic:
        msg = f"{name} is of Spark Connect, which hides how often a file is read; use a session without Connect"
        raise SourceError(msg)
    fields = frame.schema.fields
    types = [field.dataType.simpleString() for field in fields]
    schema = pa.schema([(field.name, _arrow(type_)) for field, type_ in zip(fields, types, strict=True)])

    def scans(columns: Sequence[int], of: int | None) -> list[Scan]:
        view = f"dpcube_{uuid4().hex}"
        unit = None if of is None else _unit(f"c{of}", types[of])
        sql = normalised(view, columns, lambda i: _value(f"c{i}", types[i]), unit)
        return [Scan(sql, run=lambda question: _ask(frame, view, question))]

    return Table(name, schema, scans, lambda _: True, SPARK)


def _directories(path: str) -> Iterator[tuple[Hashable, str]]:
    """Yield the local directories in which Spark would look for files, under each of their names.

    Spark follows links, and does not terminate on cycles of links; it ignores names that begin with an underscore.
    """
    local = unquote(urlsplit(path).path) if path.startswith("file:") else path
    if math.prod(choices.count(",") + 1 for choices in re.findall(r"{[^}]*", local)) > MAX_PATTERNS:
        msg = f"spark:{path} expands to more than {MAX_PATTERNS:,} patterns; use fewer braces"
        raise SourceError(msg)
    found: set[Path] = set()
    with suppress(OSError, ValueError):  # no file can have this name
        for pattern in _alternatives(local.replace("**", "*")):
            found |= matched(Path(pattern).absolute() / "**")
    directories = (path for path in sorted(found) if not path.name.startswith("_") and path.is_dir())
    return ((identity(directory), str(directory)) for directory in directories)


def _alternatives(pattern: str) -> set[str]:
    """Return the patterns without braces that a pattern expands to."""
    braces = re.search(r"{([^{}]*)}", pattern)
    if braces is None:
        return {pattern}
    return {text for choice in braces[1].split(",") for text in _alternatives(pattern.replace(braces[0], choice, 1))}


def _relations(frame: Any) -> list[list[Any]]:
    """Return the file lists of the relations that a frame reads; one list for all, if no relations are joined.

    A join may repeat rows: the protected row is then a row of the result.
    """
    relations: list[Any] = []
    defined: dict[int, Any] = {}
    todo, joined = [frame._jdf.queryExecution().analyzed()], False
    while todo:
        node = todo.pop()
        what, children = node.nodeName(), _list(node.children())
        if what == "WithCTE":
            defined |= {definition.id(): definition.child() for definition in _list(node.cteDefs())}
            children = [node.plan()]
        elif what == "CTERelationRef":
            children = [defined[node.cteId()]]
        joined = joined or (len(children) > 1 and what != "Union")
        todo += children
        index = _index(node, what)
        relations += [] if index is None else [index]
    return [[index] for index in relations] if joined else [relations]


def _is_by_name(index: Any) -> bool:
    """Return whether Spark itself listed the files by their names; Delta and Hudi list theirs by metadata."""
    return str(index.getClass().getName()).startswith("org.apache.spark.sql.execution.")


def _index(node: Any, what: str) -> Any:
    """Return the file list of a relation that reads files, in either version of Spark's data source API."""
    if what == "LogicalRelation" and node.relation().getClass().getSimpleName() == "HadoopFsRelation":
        return node.relation().location()
    if what == "DataSourceV2Relation":
        with suppress(Exception):  # a table of another kind has none
            return node.table().fileIndex()
    return None


def _file(address: str) -> tuple[Hashable, str]:
    """Return the identity and name of a file: of a local file its inode, of a remote one its address."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        with suppress(OSError, ValueError):
            return identity(unquote(parts.path)), unquote(parts.path)
    return address, address


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _arrow(type_: str) -> pa.DataType:
    if type_.startswith("decimal"):
        return pa.float64()
    text = type_.startswith(("string", "varchar", "char"))
    return pa.string() if text else SPARK_TYPES.get(type_, pa.opaque(pa.null(), type_, "Spark"))


def _value(column: str, type_: str) -> str:
    found = kind(_arrow(type_))
    if found == "text":
        plain = f"CAST({column} AS BINARY)" if "collate" in type_ else column
        return SPARK.start(f"CAST({plain} AS STRING)")
    if found is None:  # the texts that Spark makes of such values would be unknown, unless listed
        return f"CASE WHEN {column} IS NOT NULL THEN {literal(UNKNOWN)} END"
    return f"CAST({column} AS DOUBLE)" if found == "real" else column


def _unit(column: str, type_: str) -> tuple[str, str]:
    """Return the form of a privacy unit, and a condition that its rows have one or are null, as in `unit.form`.

    Lists and structures have no form, and neither have dates and times: depending on the other rows, Spark infers a
    date or a timestamp in the session's time zone from the same text.

    Two values are never one unit. Of a boolean, a number or a decimal the form is the value, and Spark's partitions
    compare values of one type exactly, but for NaN, which is null, and -0, which is 0. Of text and bytes the form is
    bytes: "n" and the digits of a whole number below 2^53, which determine it; "b" and a boolean; or "s" and the value.
    The first byte tells these apart. So equal forms are equal values, or texts of one number or boolean.
    """
    found = kind(_arrow(type_))
    if found == "boolean":
        return column, "true"
    if found in ("integer", "real"):
        value = f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END" if type_ in ("float", "double") else column
        whole = f"{value} % 1 = 0"
        if type_.startswith("decimal"):  # whose remainder Spark rounds to fewer digits: 1e-38 would have none
            whole = f"{value} = CAST(TRY_CAST({value} AS BIGINT) AS {type_})"
        return value, f"coalesce(abs(CAST({value} AS DOUBLE)) <= {MAX_EXACT_WHOLE}D AND {whole}, true)"
    if found != "text" and type_ != "binary":
        return "CAST(NULL AS BINARY)", f"{column} IS NULL"
    text = f"CAST(CAST({column} AS BINARY) AS STRING)"
    number, word = SPARK.number(text), SPARK.boolean(text)
    whole = f"CASE WHEN abs({number}) <= {MAX_EXACT_WHOLE}D THEN {SPARK.whole(number)} END"
    cases = (
        f"WHEN isnan({number}) THEN NULL WHEN {number} IS NOT NULL THEN CAST(concat('n', {whole}) AS BINARY) "
        f"WHEN {word} IS NOT NULL THEN CAST(concat('b', {word}) AS BINARY)"
    )
    form = f"CASE {cases} ELSE concat(CAST('s' AS BINARY), CAST({column} AS BINARY)) END"
    inferred = SPARK.matches(text, f"[{BLANKS}]*(?:{INFERRED})[{BLANKS}]*")
    numbered = f"{number} IS NOT NULL AND NOT isnan({number}) AND {whole} IS NULL"
    dropped = f"coalesce({inferred} OR ({numbered}), false)"
    short = f"{SPARK.octets}({column}) <= {MAX_TEXT}"
    kept = f"{short} AND NOT (CASE WHEN {SPARK.readable(text)} THEN {dropped} ELSE false END)"
    return form, f"coalesce({kept}, true)"


def _ask(frame: Any, view: str, sql: str) -> dict[str, NDArray[Any]]:
    """Run a query on a view of the frame whose columns are named by position, for names may differ in case only."""
    session = frame.sparkSession
    frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).createOrReplaceTempView(view)
    try:
        answer = session.sql(sql).toArrow()
    finally:
        session.catalog.dropTempView(view)
    return {name: answer[name].to_numpy(zero_copy_only=False) for name in answer.column_names}


def _local_session(sql: Any) -> Any:
    return sql.SparkSession.builder.master("local[*]").appName("dpcube").config(map=LOCAL).getOrCreate()
