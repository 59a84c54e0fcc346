"""Lower: the answers of one call, from the partials that were found of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from muntin.aggregates.approximate import MOST_WEIGHT, ItemAggregate
from muntin.answer import to_arrow
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.keys.key_dictionary import Dictionary
from muntin.shard.read.items import lower_items
from muntin.shard.read.reading import CallReading
from muntin.structure.synopsis import Found


def lower(
    call: CallReading, found: Sequence[Found], kept: Ints | None, texts: Mapping[Expression, Dictionary]
) -> tuple[pa.Array, Bools | None]:
    """Answers of one call for the slots that are kept, and where there is none, NULL meanwhile; O(kept)."""
    partials = {part.need.component: found[part.window].partials[part.need] for part in call.parts}
    if kept is not None:
        partials = {name: tuple(array[kept] for array in arrays) for name, arrays in partials.items()}
    if isinstance(call.aggregate, ItemAggregate):
        ((counts,),) = partials.values()
        beyond = np.array([each.count >= MOST_WEIGHT for each in counts], np.bool_)
        return lower_items(call, counts.tolist(), texts), beyond if beyond.any() else None
    value, valid, lost = call.aggregate.lower(partials)
    if call.text is not None:
        codes = pa.array(np.where(valid, value, 0), pa.int64(), mask=None if valid.all() else ~valid)
        return texts[call.text].values.take(codes).cast(call.type), None
    return to_arrow(value, valid, call.type), lost
