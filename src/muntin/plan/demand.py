"""What a query asks of shared state, before it is decided which state serves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import APPROXIMATE
from muntin.band import Band
from muntin.errors import MuntinError
from muntin.expression import Expression, both
from muntin.lane import Asked
from muntin.query import Call, Input, Query
from muntin.sketch.kinds import SKETCHES, sketch_for
from muntin.store.needs import Need
from muntin.stream import Stream
from muntin.window import Pace, Window

PRESENCE = Need(Input(None), "count")  # whether a key has an event in the window at all


class Signature(NamedTuple):
    """What windows must have in common for one structure to serve them: the filter before them, and the keys.

    Not the aggregate: all of them are lowered from the same partials. Without keys a filter belongs to the
    input of an aggregate (see `demands_of`), so all queries without keys have one signature.
    """

    where: Expression | None
    keys: tuple[Expression, ...]

    def __str__(self) -> str:
        keys = self.where.keys if isinstance(self.where, Asked) else self.keys
        by = f"by {', '.join(map(str, keys))}" if keys else "without keys"
        return by + (f" where {self.where}" if self.where else "")


class Demand(NamedTuple):
    """One component of one input over one window, for one filtered stream and set of keys."""

    where: Expression | None
    keys: tuple[Expression, ...]
    window: Window
    need: Need
    pace: Pace = Pace()  # of the instants at which it is looked up
    hint: str | None = None
    beside: str | None = None  # the synopsis to go to, before any other choice: that of the query's calls
    # what the plan knows, for a choice that depends on other queries
    bands: int = 0  # how many different ones of its filter's attribute queries ask for, this one included
    stairs: bool = False  # whether windows of its filter and keys are on stairs

    @property
    def signature(self) -> Signature:
        return Signature(self.where, self.keys)

    @property
    def is_laned(self) -> bool:
        """Whether it asks a store that queries with other constants share."""
        return isinstance(self.where, Asked)

    @property
    def band(self) -> Band | None:
        """The band its filter is, if a range tree can serve it."""
        return self.need.input.filter.band if self.need.input.filter and not self.where else None


@dataclass(frozen=True)
class Demands:
    """All a query asks: for each call a demand per component, and for each window that decides
    which keys the query has, one for their presence."""

    calls: tuple[tuple[Demand, ...], ...]
    presence: tuple[Demand, ...]

    def all(self) -> tuple[Demand, ...]:
        """In the order of `Placement.all`."""
        return tuple(demand for call in self.calls for demand in call) + self.presence


def demands_of(query: Query) -> Demands:
    """What must be kept for a query.

    In time windows it makes no difference whether WHERE or FILTER keeps an event out, so without keys
    both become the filter of the input: one structure serves `SUM(x) … WHERE p` and
    `SUM(x) FILTER (WHERE p)`, beside `SUM(x)` of all events.
    """
    windows = (query.window,) if query.window else tuple(dict.fromkeys(call.window for call in query.calls))
    keys, beside = query.key_expressions, _sketch_of(query)
    return Demands(
        tuple(
            tuple(_demand(query, keys, call.window, need) for need in needs_of(call, query.stream))
            for call in query.calls
        ),
        tuple(_demand(query, keys, window, PRESENCE, beside) for window in windows),
    )


def laned_demands_of(query: Query, asked: Asked) -> Demands:
    """What must be kept for a query that reads lanes of a store: the same components, by the keys of that store.
    Queries that differ in nothing but their lanes have it in common."""
    return _laned_demands(query.stream, asked, query.calls, query.window, query.pace)


@lru_cache(maxsize=4096)
def _laned_demands(
    stream: Stream, asked: Asked, calls: tuple[Call, ...], of_query: Window | None, pace: Pace
) -> Demands:
    windows = (of_query,) if of_query else tuple(dict.fromkeys(call.window for call in calls))
    keys = asked.store_keys
    return Demands(
        tuple(
            tuple(
                Demand(asked, keys, _with_slide(call.window, of_query), need, pace)
                for need in needs_of(call, stream)
            )
            for call in calls
        ),
        tuple(Demand(asked, keys, _with_slide(window, of_query), PRESENCE, pace) for window in windows),
    )


def laned_call_demands(query: Query, call: Call, asked: Asked) -> tuple[Demand, ...]:
    """What must be kept for a call whose FILTER, with WHERE, is lanes of a store: that filter is no longer part of its
    input. Calls that differ in nothing but their lanes have it in common."""
    return _laned_call(query.stream, asked, replace(call, filter=None), query.window, query.pace)


@lru_cache(maxsize=4096)
def _laned_call(
    stream: Stream, asked: Asked, call: Call, of_query: Window | None, pace: Pace
) -> tuple[Demand, ...]:
    window = _with_slide(call.window, of_query)
    return tuple(Demand(asked, asked.store_keys, window, need, pace) for need in needs_of(call, stream))


def _sketch_of(query: Query) -> str | None:
    """The sketch that knows all a query asks for: to keep events only to tell its windows would be a waste."""
    if all(APPROXIMATE.isdisjoint(AGGREGATES[call.function].components) for call in query.calls):
        return None
    needs = [need for call in query.calls for need in needs_of(call, query.stream)]
    if not needs or any(need.component not in APPROXIMATE for need in needs):
        return None
    hinted = [need for need in needs if need.component in SKETCHES.get(query.hint or "", ())]
    return query.hint if hinted else sketch_for(needs[0])


def needs_of(call: Call, stream: Stream | None = None) -> tuple[Need, ...]:
    """The components that a call over a stream reads."""
    return _needs(call.function, call.argument, call.filter, call.parameters, stream)


# Remembered by stream: expressions with equal texts are computed otherwise over columns of other types.


@lru_cache(maxsize=4096)
def _needs(
    function: str,
    argument: Expression | None,
    kept: Expression | None,
    parameters: tuple[Any, ...],
    stream: Stream | None,
) -> tuple[Need, ...]:
    given = Input(argument, kept)
    return tuple(Need(given, component, parameters) for component in AGGREGATES[function].components)


def _demand(
    query: Query, keys: tuple[Expression, ...], window: Window, need: Need, beside: str | None = None
) -> Demand:
    where = query.where
    if where is not None and not keys and window.is_time:
        if need is not PRESENCE:  # nobody asks which keys there are: the window's bounds are enough
            need = _filtered(need, where, query.stream)
        where = None
    return Demand(where, keys, _with_slide(window, query.window), need, query.pace, query.hint, beside)


@lru_cache(maxsize=4096)
def _filtered(need: Need, where: Expression, stream: Stream) -> Need:
    return need._replace(input=Input(need.input.argument, both(where, need.input.filter)))


def _with_slide(window: Window, of_query: Window | None) -> Window:
    # A window without SLIDE in a query with one is only ever looked up at the query's instants, so
    # its edges fall on a grid too.
    if window is of_query or of_query is None or window.unit != of_query.unit:
        return window
    if not window.slide:
        return replace(window, slide=of_query.slide, offset=of_query.offset)
    if window.is_time or not of_query.slide or window.slide % of_query.slide == 0:
        return window
    # Among ROWS windows the query's count is rounded first; again to a divisor changes nothing.
    if of_query.slide % window.slide:
        raise MuntinError(f"the SLIDE of {window} must divide that of {of_query} after FROM, or the reverse")
    return replace(window, slide=of_query.slide)
