"""At once: calls of one aggregate over many windows, as `SUM(n) OVER [w]` for two hundred `w`, are lowered as one.

What a look-up finds of the windows of a group lies in one array, window by window. So its answers are one array, too,
and the column of each call is a part of it, without a copy. One by one, Arrow and NumPy cost more than the numbers do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import to_arrow
from muntin.arrays import Bools, Ints, joined
from muntin.shard.read.reading import PartialOf, Reading
from muntin.structure.synopsis import Found

_MOST = 1 << 23  # slots of all windows: bounds the memory that a block takes beside what was found

Lowered = tuple[pa.Array, Bools | None]


def lowered_at_once(
    reading: Reading, found: Sequence[Found], kept: Ints | None, slots: Hashable,
    once: Callable[[Hashable, Callable[[], Any]], Any],
) -> Mapping[int, Lowered]:  # fmt: skip
    """The answers of calls that are alike for the slots that are kept, and where there is none, by number of the call;
    those that are missing have to be lowered one by one. `slots` identifies the slots."""
    made: dict[int, Lowered] = {}
    for numbers in reading.alike_calls:
        parts = [reading.calls[number].parts for number in numbers]
        arrays = [found[each.window].partials[each.need] for some in parts for each in some]
        if len({len(each[0]) for each in arrays}) == 1 and len(numbers) * len(arrays[0][0]) <= _MOST:
            # what was found of the windows tells the columns apart, as it does for those that are lowered alone
            which = ("lower at once", slots, reading.calls[numbers[0]].aggregate.name, *map(id, arrays))
            lowered = once(which, partial(_lower, reading, numbers, parts, found, kept))
            made |= zip(numbers, lowered, strict=True)
    return made


def _lower(
    reading: Reading, numbers: Sequence[int], parts: Sequence[Sequence[PartialOf]], found: Sequence[Found],
    kept: Ints | None,
) -> list[Lowered]:  # fmt: skip
    call = reading.calls[numbers[0]]
    partials = {}
    for place, part in enumerate(call.parts):
        windows = [found[some[place].window].partials[some[place].need] for some in parts]
        blocks = [joined(arrays) for arrays in zip(*windows, strict=True)]
        if kept is not None:
            blocks = [block.reshape(len(numbers), -1)[:, kept].ravel() for block in blocks]
        partials[part.need.component] = tuple(blocks)
    value, valid, lost = call.aggregate.lower(partials)
    column = to_arrow(value, valid, call.type)
    width = len(value) // len(numbers)
    edges = range(0, len(value), width) if width else [0] * len(numbers)
    return [(column.slice(at, width), _lost(lost, at, width)) for at in edges]


def _lost(lost: Bools | None, at: int, width: int) -> Bools | None:
    if lost is None:
        return None
    part: Bools = lost[at : at + width]
    return part if np.any(part) else None
