"""From partials to answers: lower the calls of a query, apply HAVING and SELECT to the few rows left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import Bools, Ints
from muntin.band import Band
from muntin.errors import NoValue
from muntin.expression import Expression
from muntin.kernels.answers import within_bands
from muntin.keys.key_dictionary import Dictionary
from muntin.shard.read.at_once import lowered_at_once
from muntin.shard.read.left_out import NONE, LeftOut, Values, either, evaluate_each, lost_of, no_sum
from muntin.shard.read.lower import lower
from muntin.shard.read.ranked import Ranked, plain_numbers
from muntin.shard.read.reading import GroupWindow, Reading, call_of
from muntin.shard.read.top import first_of
from muntin.structure.synopsis import Found

_NO_SLOTS = np.zeros(0, np.int64)
# what a group has of a window, at the instants (or counts) at hand
Finder = Callable[[GroupWindow], Found]
# makes a thing unless it was made before for the same `Hashable`
Once = Callable[[Hashable, Callable[[], Any]], Any]


@dataclass(frozen=True)
class Rows:
    """The slots of a look-up: instant by instant, key by key (or one by one, for windows by count)."""

    width: int  # slots per instant
    instants: Ints  # one per `width` slots
    key: Ints | None  # key id of each slot; None if slots are all keys, in order, at every instant
    is_after_first_event: bool = True  # otherwise there is no instant yet

    def __len__(self) -> int:
        return self.width * len(self.instants)

    def ids(self, kept: Ints | None) -> Ints:
        """Key ids of some slots, None for all."""
        if self.key is not None:
            return self.key if kept is None else self.key[kept]
        return np.tile(np.arange(self.width), len(self.instants)) if kept is None else kept % self.width


class Answered(NamedTuple):
    """Rows of an answer; of those that were due, `gone` are left out since a value does not exist, None if none is."""

    table: pa.Table
    left_out: LeftOut = NONE
    gone: Bools | None = None


def always(what: Hashable, make: Callable[[], Any]) -> Any:
    """For answers that share nothing with others."""
    return make()


def answer(reading: Reading, rows: Rows, find: Finder,
           texts: Mapping[Expression, Dictionary], once: Once = always, is_filtered: bool = True,
           band: Band | None = None, only: Ints | None = None) -> Answered:  # fmt: skip
    """Answers of a query for all slots of `rows` whose key is present and passes HAVING (or has its compared answer
    in the `band`), or for all of them if it is not to be `filtered`; without those of which a value does not exist.
    Of a query with LIMIT others take the places of these, and rows of some keys may be wanted `only`.

    Columns that other queries have too are made by the first that asks; what was found outlives
    them, so its identity says which they are.
    """
    found = [find(window) for window in reading.windows]
    chosen = select(reading, rows, found, texts, once, is_filtered, band)
    # of this query alone from here on?
    is_alone = reading.query.having is not None or reading.query.top is not None or not is_filtered
    then = always if is_alone else once
    answers = tabulate(reading, rows, found, chosen, then)
    without, left_out = chosen.unknown, chosen.left_out
    if reading.query.top is not None and is_filtered:
        chosen, answers, without, left_out = replace_lost(reading, rows, found, texts, once, chosen, answers)
    if only is not None:
        answers = answers._replace(table=answers.table.filter(pa.array(np.isin(rows.ids(chosen.kept), only))))
        left_out = left_out if np.isin(rows.ids(without), only).any() else NONE
    return answers._replace(left_out=left_out.also(answers.left_out)) if left_out.rows else answers


def replace_lost(
    reading: Reading, rows: Rows, found: Sequence[Found], texts: Mapping[Expression, Dictionary], once: Once,
    chosen: Selected, answers: Answered,
) -> tuple[Selected, Answered, Ints, LeftOut]:  # fmt: skip
    """Of a query with LIMIT, let others take the places of slots of which a value does not exist: the slots then
    chosen, their answers, and the slots that are left out."""
    without, left_out = chosen.unknown, chosen.left_out
    while answers.gone is not None and chosen.kept is not None:
        without, left_out = np.append(without, chosen.kept[answers.gone]), left_out.also(answers.left_out)
        chosen = select(reading, rows, found, texts, once, without=without)
        answers = tabulate(reading, rows, found, chosen, always)
    return chosen, answers, without, left_out


def answers_by_band(reading: Reading, bands: Sequence[Band], rows: Rows, find: Finder,
                    texts: Mapping[Expression, Dictionary], once: Once) -> list[pa.Table]:  # fmt: skip
    """Answers of queries that are as this one but for the band their HAVING lets pass: rows are made for all
    of them at once, and each has its part of them. NoValue if one has to be left out."""
    assert reading.compared is not None
    found = [find(window) for window in reading.windows]
    chosen, which = _before_having(reading, found, texts, once)
    if chosen.kept is not None and not len(chosen.kept):
        return [reading.schema.empty_table()] * len(bands)
    _refuse_lost(reading, chosen)
    ranked = _ranked(chosen.columns[reading.compared], which[reading.compared], once)
    passing = ranked.within_each(bands)
    edges = np.cumsum([0, *map(len, passing)])
    return _cut(reading, rows, found, chosen, np.concatenate(passing), edges)


class Slots(NamedTuple):
    """What one of several queries looks at: some slots, of which those pass whose compared answer is in a band."""

    begin: int
    end: int
    band: Band


def answers_by_slots(reading: Reading, asked: Sequence[Slots], rows: Rows, found: Found,
                     texts: Mapping[Expression, Dictionary]) -> list[pa.Table]:  # fmt: skip
    """Answers of queries that are as this one but for their slots and the band their HAVING lets pass;
    O(slots of all), in one pass. NoValue if one has to be left out."""
    assert reading.compared is not None
    chosen, _ = _before_having(reading, [found], texts, always)
    if chosen.kept is not None and not len(chosen.kept):
        return [reading.schema.empty_table()] * len(asked)
    _refuse_lost(reading, chosen)
    compared = chosen.columns[reading.compared]
    begin, end = (np.array(side) for side in zip(*((each.begin, each.end) for each in asked), strict=True))
    if chosen.kept is not None:
        begin, end = np.searchsorted(chosen.kept, begin), np.searchsorted(chosen.kept, end)
    low, high = (
        np.array(side) for side in zip(*((each.band.low, each.band.high) for each in asked), strict=True)
    )
    values, valid = plain_numbers(compared)
    slots, edges = np.empty(int((end - begin).sum()), np.int64), np.empty(len(asked) + 1, np.int64)
    are_floats = values.dtype == np.float64
    known = np.zeros(0, np.bool_) if valid is None else valid
    within_bands(values.view(np.int64), are_floats, known, begin, end, low, high, slots, edges)
    return _cut(reading, rows, [found], chosen, slots[: edges[-1]], edges)


def columns_of(reading: Reading, found: Sequence[Found], texts: Mapping[Expression, Dictionary]) -> Selected:
    """The answers of all calls, for all slots. NoValue if one has none."""
    chosen, _ = _before_having(reading, found, texts, always, is_filtered=False)
    _refuse_lost(reading, chosen)
    return chosen


def _cut(reading: Reading, rows: Rows, found: Sequence[Found], chosen: Selected, passing: Ints,
         edges: Ints) -> list[pa.Table]:  # fmt: skip
    """Those of the chosen that pass, tabulated at once, and cut where the next query's begin."""
    taken = pa.array(passing)
    kept = passing if chosen.kept is None else chosen.kept[passing]
    chosen = chosen._replace(kept=kept, columns=[column.take(taken) for column in chosen.columns])
    table, left_out, _ = tabulate(reading, rows, found, chosen, always)
    if left_out.rows:
        raise NoValue(left_out.reason)
    return [table.slice(lo, hi - lo) for lo, hi in pairwise(edges.tolist())]


def _refuse_lost(reading: Reading, chosen: Selected) -> None:
    for call, lost in zip(reading.query.calls, chosen.lost, strict=True):
        if lost is not None:
            raise NoValue(no_sum(call))


def tabulate(reading: Reading, rows: Rows, found: Sequence[Found], chosen: Selected, once: Once,
             outputs: Sequence[int | Expression] = (), constants: Mapping[str, pa.Array] = MappingProxyType({}),
             ) -> Answered:  # fmt: skip
    """Slots that were chosen, as answers; without those of which a value does not exist. `outputs` may be given with
    `constants` as columns, in the place of the reading's own."""
    outputs = outputs or reading.outputs
    query, keys = reading.query, reading.keys
    kept, columns, slots = chosen.kept, chosen.columns, chosen.slots
    if kept is not None and not len(kept):
        return Answered(reading.schema.empty_table())
    presence = [found[part.window] for part in reading.presence]
    key_columns = [] if keys is None else once(("keys", slots, id(keys)), lambda: keys.take(rows.ids(kept)))
    named: dict[str, pa.Array] = {}
    if any(isinstance(output, Expression) for output in outputs):
        named = {f"${i}": column for i, column in enumerate(columns)} | dict(constants)
        named |= {key.name: column for key, column in zip(query.keys, key_columns, strict=True)}
    values = [
        Values(columns[output], chosen.lost[output])
        if isinstance(output, int)
        else evaluate_each(output, named)
        for output in outputs
    ]
    bounds = once(("bounds", slots, query.window is None), partial(_bounds, reading, presence, rows, kept))
    complete = once(
        ("complete", slots, tuple(map(id, found)), reading.same_windows),
        partial(_complete, reading, found, kept, len(bounds[0]), once),
    )
    made = [each.column for each in values]
    table = pa.Table.from_arrays([*key_columns, *made, *bounds, complete], schema=reading.schema)
    gone, reason = _gone(reading, chosen, values)
    if gone is None:
        return Answered(table)
    return Answered(table.filter(pa.array(~gone)), LeftOut(int(gone.sum()), reason), gone)


def _gone(reading: Reading, chosen: Selected, values: Sequence[Values]) -> tuple[Bools | None, str]:
    """The rows for which one of the outputs has no value, and why."""
    gone, reason = None, ""
    for output, each in zip(reading.outputs, values, strict=True):
        lost, why = each.lost, each.reason
        if isinstance(output, Expression):
            unknown, no_call = lost_of(reading, output, chosen.lost)
            lost, why = either(unknown, lost), no_call or why
        elif lost is not None:
            why = no_sum(reading.query.calls[output])
        if lost is not None and lost.any():
            gone, reason = either(gone, lost), reason or why
    return gone, reason


class Selected(NamedTuple):
    """Slots that a query answers for (None: all of them), with the answer of each call."""

    kept: Ints | None
    columns: list[pa.Array]
    lost: list[Bools | None]  # for each call, where it has no value; None: nowhere
    slots: Hashable  # what identifies the slots before HAVING
    unknown: Ints = _NO_SLOTS  # those of which HAVING has no value: they are not kept
    reason: str = ""  # why it has none

    @property
    def left_out(self) -> LeftOut:
        return LeftOut(len(self.unknown), self.reason)

    def at(self, places: Ints) -> Selected:
        """Some of them."""
        taken = pa.array(places)
        return self._replace(
            kept=places if self.kept is None else self.kept[places],
            columns=[column.take(taken) for column in self.columns] if len(places) else [],
            lost=[None if each is None else each[places] for each in self.lost],
        )


def select(reading: Reading, rows: Rows, found: Sequence[Found],
           texts: Mapping[Expression, Dictionary], once: Once, is_filtered: bool = True,
           band: Band | None = None, without: Ints = _NO_SLOTS) -> Selected:  # fmt: skip
    """The slots of a query whose key is present and passes HAVING, or the `band` in its place; or all, if not to be
    `filtered`. Of a query with LIMIT the first of these in its order, `without` some."""
    chosen = _after_having(reading, rows, found, texts, once, is_filtered, band)
    top = reading.query.top
    if top is None or not is_filtered or (chosen.kept is not None and not len(chosen.kept)):
        return chosen
    values = [_value(reading, chosen, rows, expression) for expression, _ in top.by]
    # answers of calls live as long as what is shared does, so their identity tells them
    is_shared = reading.query.having is None and not len(without)
    is_shared &= all(isinstance(call_of(expression), int) for expression, _ in top.by)
    return first_of(reading, rows, chosen, values, without, once if is_shared else always)


def _after_having(reading: Reading, rows: Rows, found: Sequence[Found],
                  texts: Mapping[Expression, Dictionary], once: Once, is_filtered: bool,
                  band: Band | None) -> Selected:  # fmt: skip
    chosen, which = _before_having(reading, found, texts, once, is_filtered)
    kept, having = chosen.kept, reading.query.having
    if having is None or not is_filtered or (kept is not None and not len(kept)):
        return chosen
    unknown, reason = lost_of(reading, having, chosen.lost)
    if reading.compared is None:
        verdict = _evaluated(reading, chosen, rows, having)
        if verdict.lost is not None:
            unknown, reason = either(unknown, verdict.lost), reason or verdict.reason
        passes = np.asarray(verdict.column.fill_null(False))
        passing = np.flatnonzero(passes if unknown is None else passes & ~unknown)
    else:  # what has no value is NULL there, and in no band
        ranked = _ranked(chosen.columns[reading.compared], which[reading.compared], once)
        band = band or having.band
        assert band is not None
        passing = ranked.within(band)
    if unknown is not None:
        slots = np.flatnonzero(unknown)
        chosen = chosen._replace(unknown=slots if kept is None else kept[slots], reason=reason)
    if len(passing) == (len(rows) if kept is None else len(kept)):
        return chosen
    return chosen.at(passing)


def _before_having(reading: Reading, found: Sequence[Found], texts: Mapping[Expression, Dictionary],
                   once: Once, is_filtered: bool = True) -> tuple[Selected, list[Hashable]]:  # fmt: skip
    """The slots whose key is present, and what identifies the answers of each call."""
    slots: Hashable = tuple(id(found[part.window]) for part in reading.presence)
    kept: Ints | None = None
    if reading.query.keys and is_filtered:
        kept = once(("present", slots), partial(_present, reading, found))
    columns: list[pa.Array] = []
    losts: list[Bools | None] = []
    which: list[Hashable] = []
    is_any = kept is None or len(kept) > 0
    at_once: Mapping[int, tuple[pa.Array, Bools | None]] = {}
    if reading.alike_calls and is_any:
        at_once = lowered_at_once(reading, found, kept, (slots, is_filtered), once)
    for number, call in enumerate(reading.calls if is_any else ()):
        parts = tuple(id(found[each.window].partials[each.need]) for each in call.parts)
        which.append((slots, is_filtered, call.aggregate.name, parts))
        made = at_once.get(number)
        column, lost = made or once(("lower", which[-1]), partial(lower, call, found, kept, texts))
        columns.append(column)
        losts.append(lost)
    return Selected(kept, columns, losts, slots), which


def _ranked(compared: pa.Array, which: Hashable, once: Once) -> Ranked:
    ranked: Ranked = once(("rank", which), partial(Ranked, compared))
    return ranked


def _present(reading: Reading, found: Sequence[Found] | Mapping[int, Found]) -> Ints | None:
    held = [found[part.window].partials[part.need][0] > 0 for part in reading.presence]
    present = held[0] if len(held) == 1 else np.logical_or.reduce(held)
    return None if present.all() else np.flatnonzero(present)


def _value(reading: Reading, chosen: Selected, rows: Rows, expression: Expression) -> Values:
    """What ORDER BY names, for the slots that are kept."""
    number = call_of(expression)
    lost, reason = lost_of(reading, expression, chosen.lost)
    if isinstance(number, int):
        return Values(chosen.columns[number], lost, reason)
    value = _evaluated(reading, chosen, rows, expression)
    return Values(value.column, either(lost, value.lost), reason or value.reason)


def _evaluated(reading: Reading, chosen: Selected, rows: Rows, expression: Expression) -> Values:
    """An expression over the answers and keys of the slots that are kept."""
    query, keys, kept = reading.query, reading.keys, chosen.kept
    named = {f"${i}": column for i, column in enumerate(chosen.columns)}
    if keys is not None and any(name[0] != "$" for name in expression.columns):
        named |= {key.name: column for key, column in zip(query.keys, keys.take(rows.ids(kept)), strict=True)}
    count = len(rows) if kept is None else len(kept)
    # an expression without a column takes the length from something
    named = named or {"$": pa.array(np.zeros(count, np.int64))}
    return evaluate_each(expression, named)


def _bounds(reading: Reading, presence: Sequence[Found], rows: Rows, kept: Ints | None) -> list[pa.Array]:
    window = reading.query.window
    if window is None:
        start = np.minimum.reduce([_spread(found.start, found.width, kept) for found in presence])
        end = _spread(rows.instants, rows.width, kept)
        is_known: Any = [rows.is_after_first_event and reading.is_by_time, rows.is_after_first_event]
    else:
        (found,) = presence
        start, end = (_spread(side, found.width, kept) for side in (found.start, found.end))
        is_known = 2 * [rows.is_after_first_event and (window.is_time or end > start)]
    return [to_instants(side, known) for side, known in zip((start, end), is_known, strict=True)]


def _complete(
    reading: Reading, found: Sequence[Found], kept: Ints | None, count: int, once: Once
) -> pa.Array:
    covered = [each.complete(window.needs) for each, window in zip(found, reading.windows, strict=True)]
    if all(each.all() for each in covered):
        return once(("all complete", count), lambda: pa.array(np.ones(count, np.bool_)))
    spread = [_spread(each, one.width, kept) for each, one in zip(covered, found, strict=True)]
    return pa.array(np.logical_and.reduce(spread))


def is_covered(reading: Reading, found: Mapping[int, Found]) -> bool:
    """Whether the windows of all keys that are present lie within what is known, given what was found of them by their
    numbers; False if no key is present."""
    kept = _present(reading, found) if reading.query.keys else None
    if kept is not None and not len(kept):
        return False
    covered = {number: each.complete(reading.windows[number].needs) for number, each in found.items()}
    return all(bool(_spread(each, found[number].width, kept).all()) for number, each in covered.items())


def _spread(per_instant: Any, width: int, kept: Ints | None) -> Any:
    """What is known of each instant, for each of the slots that are kept."""
    return per_instant.repeat(width) if kept is None else per_instant[kept // width]
