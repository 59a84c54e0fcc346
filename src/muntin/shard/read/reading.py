"""A reading: how one query's answers are put together from what its groups find; made once per plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.aggregates import AGGREGATES, Aggregate
from muntin.aggregates.approximate import ItemAggregate
from muntin.aggregates.contract import kept_type
from muntin.answer import is_plain
from muntin.band import GREATEST
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.lane import Laned
from muntin.plan.placement import Placed
from muntin.plan.request import Threshold, compared_call, threshold_of
from muntin.query import Call, Query
from muntin.shard.state import State
from muntin.sql.decimal_threshold import least_sum
from muntin.store.needs import Need
from muntin.window import Window


class GroupWindow(NamedTuple):
    """A window in a group, and all that the query needs of it; of some lanes alone, if a FILTER names them."""

    number: int
    window: Window
    needs: tuple[Need, ...]
    laned: Laned | None = None


class PartialOf(NamedTuple):
    """One component of a call: where it is found."""

    window: int  # among the windows of the reading
    need: Need


class CallReading(NamedTuple):
    """One call: its answer is lowered from its parts."""

    aggregate: Aggregate
    parts: tuple[PartialOf, ...]
    type: pa.DataType  # of the answer
    text: Expression | None  # whose dictionary has the values, if the answer is one of them
    kind: int  # a number that calls have in common which differ in nothing but their windows


class KeyRange(NamedTuple):
    """Only keys whose part has a sort key from `low` to `high` have an answer."""

    part: PartialOf
    low: int
    high: int
    is_forced: bool  # whether the query asks for the index
    tolerance: float | None  # by what factor keys may miss the range; None: not at all


class Reading:
    """`outputs` are the numbers of calls, or expressions over their answers and the keys."""

    def __init__(self, state: State, name: str):
        query, placement = state.registrations[name].query, state.manager.placements[name]
        self.query: Query = query
        self.schema = query.answer_schema()
        self.keys: KeyDictionary | None = state.keys[query.key_expressions] if query.keys else None
        self.laned = placement.laned if placement.is_among_lanes else None  # of a store that it shares
        self._pairs = None if self.laned is None else state.keys[self.laned.asked.store_keys]
        self._needs: dict[tuple[int, Window, Laned | None], dict[Need, None]] = {}
        self.calls = tuple(
            _call_reading(
                state,
                call,
                tuple(self._part(placed, placement.lanes_of_call(number)) for placed in parts),
            )
            for number, (call, parts) in enumerate(zip(query.calls, placement.calls, strict=True))
        )
        self.presence = tuple(self._part(placed) for placed in outermost(placement.presence))
        self.windows = tuple(
            GroupWindow(number, window, tuple(needs), laned)
            for (number, window, laned), needs in self._needs.items()
        )
        self.alike_calls = _alike(self.calls, self.windows)  # numbers of those that are lowered at once
        self.has_laned_calls = any(each.laned is not None for each in self.windows)
        self._pairs_of = {
            each.laned.asked: state.keys[each.laned.asked.store_keys] for each in self.windows if each.laned
        }
        self.outputs = tuple(call_of(output.expression) for output in query.outputs)
        self.shows_calls = all(isinstance(output, int) for output in self.outputs)
        # whether its rows are those of all keys in one window, and its values columns of numbers
        self.keeps_all = (
            query.having is None and query.top is None and self.laned is None and not self.has_laned_calls
            and len(self.presence) == 1 and all(each.window.is_time for each in self.windows)
            and not any(each.text or isinstance(each.aggregate, ItemAggregate) for each in self.calls)
        )  # fmt: skip
        self.range = self._range()
        compared = compared_call(query)  # by HAVING, if its answers are numbers that can be compared at once
        self.compared = compared if compared is not None and is_plain(self.calls[compared].type) else None
        # what HAVING lets pass within its tolerance, if it has one and its answers can be compared at once
        self.rough_band = None
        if query.tolerance is not None and self.compared is not None and query.having is not None:
            is_float = pa.types.is_floating(self.calls[self.compared].type)
            self.rough_band = query.having.band and query.having.band.widened(query.tolerance, is_float)
        # the call by which the first keys of a query with LIMIT are found, if heads of slices may name them
        self.lead = self._lead()
        # whether it is one row of calls: it is emitted with all others, whatever they ask for
        self.is_row = self.keeps_all and self.keys is None and self.shows_calls
        self.is_by_time = all(call.window.is_time for call in query.calls)
        # numbers that queries have in common which look at the same, or are the same but for their name
        self.same_windows = state.prepared.number(self.windows)
        self.same_presence = state.prepared.number(self.presence_windows)
        calls = tuple((call.aggregate.name, call.parts, call.text) for call in self.calls)
        outputs = tuple(output.expression.sql for output in query.outputs)
        alike = (query.key_expressions, calls, self.presence, outputs, tuple(self.schema.names))
        asked = (*alike, self.laned)
        self.same_answers = state.prepared.number(
            (self.windows, query.window, query.having, query.top, *asked)
        )
        # of queries that are the same but for the band that HAVING lets pass; None of others
        self.same_but_band = (
            None
            if self.compared is None or self.keys is None or self.laned is not None or query.top is not None
            else state.prepared.number((self.windows, query.window, self.compared, *asked))
        )
        # of those that differ in their one window of time, too
        self.same_but_window = (
            None
            if self.same_but_band is None or len(self.windows) > 1 or not self.windows[0].window.is_time
            else state.prepared.number((self.windows[0].number, query.window is None, self.compared, *asked))
        )
        # of those that differ in their one lane, too, and in the cut of its range: they may be emitted as a crowd
        self.same_but_lane = None
        if self.is_in_one_lane and self.laned is not None and query.top is None:
            (window, *others) = self.windows
            if not others and (self.compared is not None or query.having is None):
                same = (window.number, window.needs, query.window is None, self.compared, self.laned.way)
                self.same_but_lane = state.prepared.number((*same, query.emits_changes, *alike))
        # of queries with LIMIT that are the same but for that and their one window
        self.same_but_limit = None
        if self.lead is not None and query.top is not None:
            (window,) = self.windows
            ranked = (window.number, window.needs, query.window is None, query.having, query.top.by, *asked)
            self.same_but_limit = state.prepared.number(ranked)
        self.likeness: Any = False  # found when it is first asked for; see likeness.py

    @property
    def is_in_one_lane(self) -> bool:
        """Whether it reads one lane, all of it or what is above or below a cut: its like are read together."""
        if self.laned is None or len(self.laned.lanes) > 1:
            return False
        return self.laned.asked.banded is None or self.laned.way is not None

    @property
    def presence_windows(self) -> tuple[tuple[int, Window], ...]:
        """The windows in which a key must have events to have a row, each with its group."""
        return tuple([self.windows[part.window][:2] for part in self.presence])

    @property
    def width(self) -> int:
        """Slots per instant when all keys are looked up; of a store with lanes, all its pairs of a key and a lane."""
        if self._pairs is not None:
            return len(self._pairs)
        return 1 if self.keys is None else len(self.keys)

    def slots_of(self, window: GroupWindow) -> int:
        """Slots per instant of one of its windows, as its group has them."""
        return self.width if window.laned is None else len(self._pairs_of[window.laned.asked])

    def _range(self) -> KeyRange | None:
        threshold = threshold_of(self.query)
        if isinstance(threshold, str):
            threshold = self._decimal_threshold() or threshold
        if isinstance(threshold, str) or self.laned is not None:
            return None
        parts = self.calls[threshold.call].parts
        part = next(part for part in parts if part.need.component == threshold.component)
        if self.windows[part.window].laned is not None:
            return None
        return KeyRange(part, threshold.low, threshold.high, threshold.is_forced, threshold.tolerance)

    def _decimal_threshold(self) -> Threshold | None:
        """What HAVING asks of a sum of decimals, as one of integers."""
        found = least_sum(self.query) if self.query.keys else None
        if found is None or found[1] > GREATEST:
            return None
        window = self.query.calls[found[0]].window
        is_now = window.is_time and not window.to
        return Threshold(found[0], "sum", found[1], GREATEST, False, None) if is_now else None

    def _lead(self) -> tuple[int, PartialOf] | None:
        top = self.query.top
        if top is None or self.laned is not None or len(self.windows) > 1:
            return None
        (expression, descends), number = top.by[0], call_of(top.by[0][0])
        if not isinstance(number, int):
            return None
        call, function = self.calls[number], self.query.calls[number].function
        is_number = pa.types.is_integer(expression.type) or pa.types.is_floating(expression.type)
        if not is_number or function not in (("count", "sum", "max") if descends else ("min",)):
            return None
        part = next(part for part in call.parts if part.need.component == function)
        window = self.windows[part.window]
        return (number, part) if window.window.is_time and window.laned is None else None

    def _part(self, placed: Placed, laned: Laned | None = None) -> PartialOf:
        number, demand = placed
        where = (number, demand.window, laned)
        self._needs.setdefault(where, {})[demand.need] = None
        return PartialOf(list(self._needs).index(where), demand.need)


def outermost(presence: Iterable[Placed]) -> list[Placed]:
    """Of the windows in which a key may have events, those that lie in no other of the same group: who has events in
    the inner window has them in the outer one. Windows of one pace stand together."""
    groups: dict[Hashable, list[Placed]] = {}
    found: list[Placed] = []
    for placed in presence:
        number, (window, need) = placed[0], (placed[1].window, placed[1].need)
        if window.is_time and not window.since:
            groups.setdefault((number, need, window.pace), []).append(placed)
        else:
            found.append(placed)
    for some in groups.values():
        some.sort(key=lambda placed: (-placed[1].window.size, placed[1].window.to))
        ends: int | None = None
        for placed in some:
            if ends is None or placed[1].window.to < ends:
                ends = placed[1].window.to
                found.append(placed)
    return found


_FEW = 4  # calls that are as quickly lowered one by one


def _alike(calls: Sequence[CallReading], windows: Sequence[GroupWindow]) -> tuple[tuple[int, ...], ...]:
    """Calls of the same aggregate and argument, over windows of the same group."""
    alike: dict[Hashable, list[int]] = {}
    for number, call in enumerate(calls):
        of = [windows[part.window] for part in call.parts]
        if (
            call.text is None
            and not isinstance(call.aggregate, ItemAggregate)
            and not any(each.laned for each in of)
        ):
            needs = tuple(part.need for part in call.parts)
            what = (call.aggregate.name, needs, tuple(each.number for each in of), call.type)
            alike.setdefault(what, []).append(number)
    return tuple(tuple(some) for some in alike.values() if len(some) >= _FEW)


def reading_of(state: State, name: str) -> Reading:
    """The reading of a query; kept until the plan changes."""
    readings: dict[str, Any] = state.prepared.readings
    if name not in readings:
        readings[name] = Reading(state, name)
    reading: Reading = readings[name]
    return reading


def call_of(output: Expression) -> int | Expression:
    """The number of the call that an output is nothing but the answer of, or else the output."""
    if output.is_column and output.columns and output.columns[0].startswith("$"):
        return int(output.columns[0][1:])
    return output


def _call_reading(state: State, call: Call, parts: tuple[PartialOf, ...]) -> CallReading:
    kind = answer_type(call)
    alike = state.prepared.number((call.function, tuple(part.need for part in parts), kind))
    return CallReading(AGGREGATES[call.function], parts, kind, _text_of(call, state), alike)


def answer_type(call: Call) -> pa.DataType:
    return AGGREGATES[call.function].answer_type(None if call.argument is None else call.argument.type)


def _text_of(call: Call, state: State) -> Expression | None:
    argument = call.argument
    return argument if argument in state.texts and answer_type(call) == kept_type(argument.type) else None
