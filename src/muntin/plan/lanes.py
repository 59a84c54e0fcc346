"""Which queries can read lanes: those whose WHERE compares attributes with constants, and whose partials merge.

`WHERE category = 'fuel' AND country IN ('FR', 'DE') AND amount > 5 AND note LIKE 'x%'` has the attributes `category`
and `country`, the banded attribute `amount`, two lanes, and the rest `note LIKE 'x%'`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from muntin.aggregates.component import BY_ARRIVAL
from muntin.condition import ConditionPart, condition_of
from muntin.expression import Columns, Expression, both, not_written
from muntin.lane import Asked, Lane, Laned, can_be
from muntin.passing import Passing, PassingKeys, Range, passing_text
from muntin.plan import choices
from muntin.plan.demand import Demand, Demands, laned_call_demands, laned_demands_of
from muntin.plan.synopses import is_on_slices, merges
from muntin.query import Call, Query
from muntin.store.needs import count
from muntin.stream import Stream

_MOST_LANES = 64  # of one query: more are better found by evaluating its WHERE
_MANY_OF_ONE_QUERY = 8  # lanes of its FILTERs, that are worth a store by themselves
_MOST_IN_A_ROW = 8  # values that are asked for one by one; more without a gap are a range


class _Indexed(NamedTuple):
    """The parts of a condition by how they are found: values of attributes, a range of the banded one, and others."""

    attributes: tuple[Expression, ...]
    points: tuple[tuple[Any, ...], ...]  # of each attribute those that pass
    banded: tuple[Expression, Range] | None
    others: tuple[ConditionPart, ...]
    rest: Expression | None  # what is no part of any attribute

    def without_bands(self) -> _Indexed:
        """The same with the range among the others."""
        if self.banded is None:
            return self
        attribute, ends = self.banded
        part = (attribute, PassingKeys.between(*ends, attribute.type))
        return self._replace(banded=None, others=(*self.others, part))


LanedQuery = tuple[Laned, Demands]
LanedCall = tuple[Laned, tuple[Demand, ...]]


def laned_of(query: Query) -> LanedQuery | None:
    """The lanes that a query could read, and what it would ask of their store; None if it must have its own."""
    if query.where is None or query.hint is not None or query.tolerance is not None or query.is_joined:
        return None
    lanes = _lanes(query, query.where, lambda asked: laned_demands_of(query, asked), Demands.all, _can_share)
    return next(lanes, None)


def lanes_of_calls(query: Query) -> tuple[LanedCall | None, ...]:
    """For each call the lanes that it could read, by its FILTER and the query's WHERE, and what it would ask of their
    store; None if it must have state of its own. Nothing if no call has a FILTER."""
    if query.hint is not None or query.is_joined or all(call.filter is None for call in query.calls):
        return ()
    if query.window is not None and not query.window.is_time:
        return ()  # its windows close by count, one key at a time
    return tuple(None if call.filter is None else _lanes_of_call(query, call) for call in query.calls)


def _lanes_of_call(query: Query, call: Call) -> LanedCall | None:
    where = _both(query.stream, query.where, call.filter)
    lanes = _lanes(
        query, where, lambda asked: laned_call_demands(query, call, asked), tuple, _can_share_in_window
    )
    return next(lanes, None)


@lru_cache(maxsize=4096)
def _both(stream: Stream, where: Expression | None, kept: Expression) -> Expression:
    return both(where, kept) or kept


def lane_of_condition(streams: tuple[Stream, ...], where: Expression) -> Laned | None:
    """The one lane that a condition on events of some streams asks for, and the rest of it; None if it is more than
    one, or none."""
    indexed = _indexed(streams, where, ())
    if indexed is None or not indexed.attributes:
        return None
    indexed = indexed.without_bands()
    lanes = tuple(product(*indexed.points))
    if len(lanes) != 1:
        return None
    return Laned(_asked(streams, indexed.attributes, _rest(indexed), (), None), lanes)


class LanesOf(NamedTuple):
    """The lanes that a query could read; and those that its calls could, none if no call has a FILTER."""

    query: LanedQuery | None
    calls: tuple[LanedCall | None, ...]


def lanes_of(query: Query, is_by_demand: bool = False) -> LanesOf:
    """All lanes that a query could read.

    Where events are folded before it is known what else is registered (`is_by_demand`), there is one way at most for
    each call, and the query's text decides: its WHERE, unless its FILTERs alone are worth a store.
    """
    whole, of_calls = laned_of(query), lanes_of_calls(query)
    if is_by_demand and whole is not None and any(of_calls):
        lanes = {(laned.asked, lane) for laned, _ in filter(None, of_calls) for lane in laned.lanes}
        if len(lanes) < _MANY_OF_ONE_QUERY:
            return LanesOf(whole, ())
        whole = None
    return LanesOf(whole, of_calls)


class Folded(NamedTuple):
    """A demand that a query has `alone`, or what it has `in_lanes` of the same; both if cells of these lanes are all
    that is needed for it alone."""

    alone: Demand | None
    in_lanes: Demand | None = None
    laned: Laned | None = None


def folded_by_lanes(
    query: Query, alone: Demands, whole: Laned | None, of_calls: Sequence[Laned | None]
) -> Iterator[Folded]:
    """All that has to be folded so that a query can be served alone or in lanes: those of the `whole` query, or those
    of each of its calls, if any."""
    if whole is not None:
        among = laned_demands_of(query, whole.asked)
        for mine, theirs in zip(alone.calls, among.calls, strict=True):
            yield from (Folded(*each, whole) for each in zip(mine, theirs, strict=True))
        for one, other in zip(alone.presence, among.presence, strict=True):
            if query.keys:
                yield Folded(one, other, whole)
            else:  # alone, its presence is that of all events
                yield from (Folded(one), Folded(None, other, whole))
        return
    for number, (call, mine) in enumerate(zip(query.calls, alone.calls, strict=True)):
        laned = of_calls[number] if of_calls else None
        if laned is None:
            yield from map(Folded, mine)
        else:
            theirs = laned_call_demands(query, call, laned.asked)
            yield from (Folded(*each, laned) for each in zip(mine, theirs, strict=True))
    yield from map(Folded, alone.presence)


Asking = TypeVar("Asking")


def _lanes(
    query: Query,
    where: Expression,
    ask: Callable[[Asked], Asking],
    demands_of: Callable[[Asking], Iterable[Demand]],
    can_share: Callable[[Laned, Demand], bool],
) -> Iterator[tuple[Laned, Asking]]:
    """The lanes of a predicate, with what is asked of their store: of values and a range, or of values alone."""
    indexed = _indexed(query.stream, where, query.key_expressions)
    if indexed is None:
        return
    ways = []
    if indexed.banded is not None and (indexed.attributes or query.keys):
        # without keys or values of attributes, a range tree is the better index
        ways.append(indexed)
    if indexed.attributes:
        ways.append(indexed.without_bands())
    for way in ways:
        if (laned := _laned(query, way)) is not None:
            asked = ask(laned.asked)
            demands = list(demands_of(asked))
            is_split = len(laned.lanes) > 1 or laned.asked.banded is not None
            # which of two events of the same time came first, two lanes do not tell
            is_by_arrival = is_split and any(each.need.component in BY_ARRIVAL for each in demands)
            if not is_by_arrival and all(can_share(laned, each) for each in demands):
                yield laned, asked


def _can_share(laned: Laned, demand: Demand) -> bool:
    """Whether a demand of a query whose WHERE is lanes can be read from their store. WHERE counts before a ROWS window:
    the last rows of one lane are those of one key of the store, while those of two lanes are no part of either's."""
    is_one = len(laned.lanes) == 1 and laned.asked.banded is None
    is_by_rows = is_one and demand.window.unit == "rows" and not demand.window.slide
    return _can_share_in_window(laned, demand) or (is_by_rows and merges(demand.need))


def _can_share_in_window(laned: Laned, demand: Demand) -> bool:
    """Whether a demand can be read from a store of lanes, of cells or of events, if lanes tell what is in a window."""
    is_loose = demand.window.is_time and laned.asked.banded is None
    return is_on_slices(demand) or (is_loose and merges(demand.need))


# Remembered by stream, as `_asked` is: to understand a predicate takes longer than to place a query with it, and
# engines after each other, or for each test of a user's, register the same texts.
@lru_cache(maxsize=4096)
def _indexed(
    streams: Stream | tuple[Stream, ...], where: Expression, keys: tuple[Expression, ...]
) -> _Indexed | None:
    """Of attributes with a range one is banded: not a key, if it can be helped, since each key has one value of it;
    columns come before expressions, and then it is the first in the order of their texts. None if nothing passes."""
    condition = where.condition
    if condition.is_never:
        return None
    attributes, points, ranges, others = [], [], [], []
    for attribute, passing in condition.attributes:
        some, ends = passing.points(_MOST_LANES), passing.band
        is_few = some is not None and (len(some) <= _MOST_IN_A_ROW or ends is None)
        if some is not None and is_few and (some or passing.has_null):
            attributes.append(attribute)
            found = [each for each in some if can_be(each, attribute.type)]
            points.append((*found, None) if passing.has_null else tuple(found))
        elif ends is not None:
            ranges.append((attribute, ends))
        else:
            others.append((attribute, passing))
    ranges.sort(key=lambda each: (each[0] in keys, not each[0].is_column))
    banded = ranges[0] if ranges else None
    others += [(each, PassingKeys.between(*ends, each.type)) for each, ends in ranges[1:]]
    return _Indexed(tuple(attributes), tuple(points), banded, tuple(others), condition.rest)


def _laned(query: Query, indexed: _Indexed) -> Laned | None:
    ranges = [] if indexed.banded is None else [(indexed.banded[1],)]
    lanes = tuple(product(*indexed.points, *ranges))
    if not 0 < len(lanes) <= _MOST_LANES:
        return None
    banded = None if indexed.banded is None else indexed.banded[0]
    asked = _asked(query.stream, indexed.attributes, _rest(indexed), query.key_expressions, banded)
    return Laned(asked, lanes)


def _rest(indexed: _Indexed) -> tuple[Expression, ...]:
    """What is not indexed of a condition."""
    rest = [_within(*each) for each in indexed.others] + ([] if indexed.rest is None else [indexed.rest])
    return tuple(rest)


@lru_cache(maxsize=4096)
def _asked(
    streams: Stream | tuple[Stream, ...],
    attributes: tuple[Expression, ...],
    rest: tuple[Expression, ...],
    keys: tuple[Expression, ...],
    banded: Expression | None,
) -> Asked:
    """One for all queries that share a store: a hundred thousand of their own would be most of what a query takes.
    Remembered by stream: expressions with equal texts are computed otherwise over columns of other types."""
    return Asked(attributes, rest, keys, banded)


def _within(attribute: Expression, passing: Passing) -> Expression:
    """The predicate that an attribute lies in a passing set."""

    def evaluate(columns: Columns) -> pa.Array:
        return pa.array(passing.passes(attribute.evaluate(columns)))

    condition = condition_of([(attribute, passing)])
    text = passing_text(attribute.sql, attribute.type, passing)
    return Expression(
        text, pa.bool_(), attribute.columns, evaluate, not_written, understand=lambda: condition
    )


# How many queries read each lane, or could: the more there are, the better is one store for all of them.


class LaneCounts:
    """Of all queries of a stream."""

    def __init__(self) -> None:
        self.read: dict[Asked, dict[Lane, int]] = {}  # by store: how many queries read each lane
        self._known: dict[Asked, dict[Lane, int]] = {}  # how many read each, or could
        self._expected: dict[Asked, set[Lane]] = {}  # of queries that are being registered
        self.sparse: set[Asked] = set()  # stores to which few events would come, as far as the shard has seen

    def expect(self, coming: Iterable[Laned]) -> None:
        """These are being registered together."""
        self._expected = {}
        for asked, lanes in coming:
            self._expected.setdefault(asked, set()).update(lanes)

    def are_many(self, laned: Laned) -> bool:
        """Whether the lanes of a query and those of its like are worth one store; or there is such a store."""
        asked, lanes = laned
        if asked in self.read:
            return True
        known = self._known.get(asked, {}).keys() | self._expected.get(asked, set()) | set(lanes)
        if len(known) >= _many(asked, asked in self.sparse):
            return True
        if asked.banded is None or not asked.keys:
            return False
        points = {lane[:-1] for lane in known}
        return len(known) >= choices.MANY_RANGES_PER_KEY * len(points)

    def would_be_many(self, asked: Asked) -> bool:
        """Whether it depends on how few events pass that a store is worth it."""
        if asked in self.sparse or self.are_many(Laned(asked, ())):
            return False
        return len(self._known.get(asked, ())) >= _many(asked, is_sparse=True)

    def count(self, laned: Laned, is_read: bool, step: int) -> None:
        """A query more or less that reads lanes, or could."""
        for counts in (self._known, self.read) if is_read else (self._known,):
            of_store = counts.setdefault(laned.asked, {})
            for lane in laned.lanes:
                count(of_store, lane, step)
            if not of_store:
                del counts[laned.asked]
        if laned.asked not in self._known:
            self.sparse.discard(laned.asked)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneCounts) and (self.read, self._known) == (other.read, other._known)

    __hash__ = None  # type: ignore[assignment]


def _many(asked: Asked, is_sparse: bool) -> int:
    """From how many lanes on a store is worth it."""
    many = choices.MANY_LANES_PER_KEY if asked.keys else choices.MANY_LANES
    return many // 2 if is_sparse else many
