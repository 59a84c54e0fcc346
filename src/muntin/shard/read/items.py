"""From counts of items to answers: codes become the values they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from muntin.aggregates.approximate import ApproxCount, ApproxCountSummary, Counts
from muntin.aggregates.contract import is_text, kept_type
from muntin.answer import to_arrow
from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.keys.key_dictionary import Dictionary
from muntin.shard.read.reading import CallReading
from muntin.sketch import CountSummary, ItemSummary
from muntin.store.codes import item_codes, item_values
from muntin.store.needs import storage


def lower_items(
    call: CallReading, counts: Sequence[Counts], texts: Mapping[Expression, Dictionary]
) -> pa.Array:
    """Answers of an aggregate of items, one for each window."""
    need = call.parts[0].need
    argument = need.input.argument
    assert argument is not None
    if isinstance(call.aggregate, ApproxCount):
        code = _code_of(need.parameters[0], argument, texts)
        return pa.array([call.aggregate.read(each, code) for each in counts], pa.int64())
    if isinstance(call.aggregate, ApproxCountSummary):
        return pa.array([_summary_text(each, argument, texts) for each in counts], pa.string())
    rows = [each.frequent(need.parameters[0]) for each in counts]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    item, lower, upper = np.array([row for some in rows for row in some], np.int64).reshape(-1, 3).T
    values = [_values_of(np.ascontiguousarray(item), argument, texts), *map(pa.array, (lower, lower, upper))]
    struct = pa.StructArray.from_arrays(values, fields=list(call.type.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), struct, type=call.type)


def _summary_text(counts: Counts, argument: Expression, texts: Mapping[Expression, Dictionary]) -> str:
    assert isinstance(counts, CountSummary)
    return ItemSummary(_values_of(counts.item, argument, texts), counts).to_text()


def _code_of(item: float | str, argument: Expression, texts: Mapping[Expression, Dictionary]) -> int:
    """The code of an item; one that no item has if it is a text that nobody knows."""
    if isinstance(item, str):
        return int(texts[argument].find(pa.array([item], argument.type))[0])
    return int(item_codes(np.array([item], storage(argument.type)))[0])


def _values_of(code: Ints, argument: Expression, texts: Mapping[Expression, Dictionary]) -> pa.Array:
    kind = kept_type(argument.type)
    if is_text(kind):
        return texts[argument].values.take(pa.array(code)).cast(kind)
    value = item_values(code, storage(kind))
    return to_arrow(value, np.ones(len(value), np.bool_), kind)
