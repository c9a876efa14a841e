"""The unit's form: a column that says whose a row is enters, a column `u` that tells the same units apart leaves.

What attributes read of a column may be one for two values: text that is not UTF-8 gets replacement characters, decimals
become doubles, objects become text. If two people were one unit, the rows of one would decide which of the other's are
counted. So a unit has a form of its own, of which `asked.py` asks no more than which are equal and which are null:

- two values have the same form if and only if they are equal; -0 is 0, and text is equal if its bytes are;
- a null has none, and NaN is a null here, as it is in pandas: it names nobody;
- a row whose value has no such form, or one longer than `LONGEST_TEXT` bytes, is left out of the scan, whatever becomes
  of nulls;
- a column whose type has none is refused when the unit is declared (`named` in `table.py`).
"""

import pyarrow as pa
import pyarrow.compute as pc

from dpcube.curator.sources.grammar import LONGEST_TEXT
from dpcube.curator.sources.sql import kind, value_type


def carries(type_: pa.DataType) -> bool:
    """Say whether the values of an Arrow column have a form."""
    types, type_ = pa.types, _stored(value_type(type_))
    tests = (types.is_time, types.is_duration, types.is_decimal, _is_binary)
    return kind(type_) is not None or any(test(type_) for test in tests)


def form_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the form of an Arrow column."""
    type_ = _stored(value_type(type_))
    if pa.types.is_temporal(type_):
        return pa.int64()
    if pa.types.is_floating(type_):
        return pa.float64()
    return type_ if kind(type_) in ("integer", "boolean") else pa.large_binary()


def form(array: pa.Array) -> pa.Array:
    """Return the form of each value: the number, or the bytes in which it is stored."""
    if isinstance(array.type, pa.DictionaryType):
        return form(array.dictionary).take(array.indices)
    if isinstance(array.type, pa.UuidType):
        array = array.storage
    type_ = array.type
    if pa.types.is_temporal(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    if pa.types.is_decimal(type_):
        stored = pa.binary(type_.byte_width)
        array = pa.Array.from_buffers(stored, len(array), array.buffers(), array.null_count, array.offset)
    array = array.cast(form_type(type_))
    return pc.if_else(pc.is_nan(array), None, array) if pa.types.is_floating(type_) else array


def short_enough(forms: pa.Array) -> pa.Array:
    """Say which forms are not too long."""
    if not pa.types.is_large_binary(forms.type):
        return pa.repeat(pa.scalar(value=True), len(forms))
    return pc.fill_null(pc.less_equal(pc.binary_length(forms), LONGEST_TEXT), fill_value=True)


def _stored(type_: pa.DataType) -> pa.DataType:
    return type_.storage_type if isinstance(type_, pa.UuidType) else type_


def _is_binary(type_: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(type_) for test in tests)
