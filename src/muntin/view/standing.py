"""Standing queries over views: what a SELECT reads of a view, at each of its updates.

A view that queries stand over goes from update to update, none left out, however seldom `advance` is called. Of a
view with an operator of its own each update is stored, and read by a probe of the archive. A view of groups has the
rows of all instants in the answers of its query: these are read, and only the last of them are stored.

Instants at which a view has nothing, and nothing comes, are left out, unless a query has rows of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import Coverage
from muntin.archive import Definition
from muntin.arrays import Bools, Ints
from muntin.described import COUNT, WHOLE, Maybe, check_shape
from muntin.errors import CheckpointError, MuntinError
from muntin.join_query import AnyQuery
from muntin.shard.clock import Clock, least_watermark
from muntin.shard.read.left_out import tell
from muntin.store.saved import Saved
from muntin.view.answer import Looked, answer_at, bounds_at, read_results
from muntin.view.grouped import QueryFeed, kept_columns
from muntin.view.materialized_view import MaterializedView
from muntin.view.row_ids import row_ids
from muntin.view_select import StandingQuery, ViewSelect

_MOST = 1_000  # updates of a view that one `advance` stores for its readers
_MOST_SILENT = 1_000_000  # instants at which a query has a row of nothing
_STATE = {"text": str, "emitted_to": Maybe(WHOLE), "emitted": COUNT, "missed": COUNT, "overflows": COUNT}


@dataclass
class Standing:
    """A standing query at work; instants up to `emitted_to` are not owed."""

    query: StandingQuery
    emitted_to: int | None
    emitted: int = 0  # rows given out
    missed: int = 0  # instants that it could not be answered at
    overflows: int = 0  # rows left out since a value of them does not exist
    last: pa.Table | None = None  # EMIT CHANGES: the values that it had
    tables: list[pa.Table] = field(default_factory=list)  # to be given out

    def is_due(self, instant: int) -> bool:
        return instant % self.query.slide == 0 and (self.emitted_to is None or instant > self.emitted_to)

    @property
    def is_restless(self) -> bool:
        """Whether it may have rows although its view has none: of nothing, or of what has left since it last looked."""
        has_left = self.query.emits_changes and self.last is not None and self.last.num_rows > 0
        return self.query.is_always or has_left

    def take(self, name: str, looked: Looked, definition: Definition, counts: Sequence[int] = ()) -> None:
        """Have answers at some instants to give out, or what changed there."""
        select = self.query.select
        answer, left_out = answer_at(looked, select, definition, counts)
        tell(name, self, left_out, stacklevel=6)
        if not self.query.emits_changes:
            self.tables.append(answer)
            return
        ends = np.asarray(answer["window_end"].cast(pa.int64()))
        for instant, complete in zip(looked.instants.tolist(), looked.complete.tolist(), strict=True):
            left, came = self._changed(answer.filter(pa.array(ends == instant)))
            many = left.num_rows + came.num_rows
            bounds = bounds_at(np.full(many, instant), np.full(many, complete), select, definition)
            words = pa.array(["leave"] * left.num_rows + ["enter"] * came.num_rows, pa.string())
            values = pa.concat_tables([left, came]).combine_chunks()
            self.tables.append(
                pa.Table.from_arrays([*values.columns, *bounds, words], schema=self.query.emission_schema())
            )

    def _changed(self, answer: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The values that have gone, and those that have come; each as often as it is there."""
        names = answer.column_names[:-3]
        now = answer.select(names)
        before = now.slice(0, 0) if self.last is None else self.last
        self.last = now
        old, new = row_ids((before, now), names)
        return before.filter(pa.array(_beyond(old, new))), now.filter(pa.array(_beyond(new, old)))

    def give_out(self) -> pa.Table | None:
        """The rows that were found since the last time, if there are any."""
        found, self.tables = [each for each in self.tables if each.num_rows], []
        if not found:
            return None
        table = pa.concat_tables(found)
        self.emitted += table.num_rows
        return table


def _beyond(some: Ints, others: Ints) -> Bools:
    """Of some ids, those that are there more often than among others: which ones exceed that number."""
    order = np.argsort(some, kind="stable")
    nth = np.empty(len(some), np.int64)
    nth[order] = np.arange(len(some)) - np.searchsorted(some[order], some[order], "left")
    ascending = np.sort(others)
    many = np.searchsorted(ascending, some, "right") - np.searchsorted(ascending, some, "left")
    return np.asarray(nth >= many)


class StandingSelects:
    """All standing queries that are read from archives; `views` are those that are kept up to date, `clock_of` gives
    the clock of a stream, and `select` answers as of the last update."""

    def __init__(
        self,
        views: Callable[[], Mapping[str, MaterializedView]],
        clock_of: Callable[[str], Clock],
        select: Callable[[ViewSelect], pa.Table],
    ):
        self._views, self._clock_of, self._select = views, clock_of, select
        self.registrations: dict[str, Standing] = {}

    def register(self, queries: Mapping[str, StandingQuery]) -> None:
        """Add queries; they are answered at the updates of their view that come after the watermark, too: it may have
        gone on since the view was brought up to date."""
        for name, query in queries.items():
            view = self._views().get(query.named)
            if view is None:
                raise MuntinError(
                    f"view '{query.named}' is not kept up to date by this engine; repeat its CREATE statement first"
                )
            watermark = least_watermark(self._clock_of(stream.name) for stream in query.streams)
            passed = [each for each in (view.reached, watermark) if each is not None]
            self.registrations[name] = Standing(query, max(passed, default=None))

    def drop(self, name: str) -> None:
        del self.registrations[name]

    def of(self, view: str) -> dict[str, Standing]:
        """The queries over a view."""
        return {name: each for name, each in self.registrations.items() if each.query.named == view}

    # -- answers -----------------------------------------------------------------------------------

    def lookup(self, name: str, key: Any = None, at: int | None = None) -> pa.Table:
        """One query's answer as of the last update of its view."""
        if key is not None or at is not None:
            raise MuntinError(
                f"query '{name}' is read from a view as of its last update, whole; write WHERE, or filter the answer"
            )
        return self._select(self.registrations[name].query.select)

    def value(self, name: str, key: Any = None, at: int | None = None) -> Any:
        """The first value of an answer that has one row."""
        if not self.registrations[name].query.is_always:
            raise MuntinError(
                f"query '{name}' has a row for each result or key, so no single value; use lookup, or aggregates "
                "without GROUP BY"
            )
        table = self.lookup(name, key, at)
        return table.column(0)[0].as_py() if table.num_rows else None

    def coverage(self, name: str) -> Coverage:
        """Of its view as of the last update."""
        view = self._views().get(self.registrations[name].query.named)
        return Coverage(view is not None and view.is_complete())

    def owed(self, name: str) -> int:
        """None: an `advance` that updates the view gives out its answers."""
        return 0

    def step(self, view: MaterializedView, until: int | None) -> bool:
        """Bring a view with an operator of its own as far as it goes, and read it at each instant on the way; whether
        some are left for the next call."""
        readers = self.of(view.query.name)
        instants = _instants(view, until, lambda: any(each.is_restless for each in readers.values()))
        for steps, instant in enumerate(instants):
            if steps == _MOST:
                return True
            view.turn(instant)
            for name, each in readers.items():
                if each.is_due(instant):
                    self._read(name, each, view, instant)
        view.turn(until)
        return False

    def _read(self, name: str, standing: Standing, view: MaterializedView, instant: int) -> None:
        standing.emitted_to = instant
        if view.view.now != instant:  # the disk did not take the update, or has a later one
            standing.missed += 1
            return
        rows = read_results(view.view, standing.query.select)
        complete = np.array([view.is_complete()])
        looked = Looked(rows, np.full(rows.num_rows, instant), np.array([instant]), complete)
        standing.take(name, looked, view.view.definition, view.view.epoch.liveness().counts)

    def read_groups(self, view: MaterializedView, answers: pa.Table | None) -> None:
        """Read the rows that the query of a view of groups has given out, at all their instants."""
        feed, definition = view.registration, view.archive.definition
        assert isinstance(feed, QueryFeed)
        reached, first = feed.emitted_to, feed.first
        if reached is None or first is None:
            return
        if answers is None:
            rows, at = definition.columns.empty_table(), np.zeros(0, np.int64)
        else:
            rows, at = kept_columns(answers, definition), np.asarray(answers["window_end"].cast(pa.int64()))
        for name, each in self.of(view.query.name).items():
            after, slide = first if each.emitted_to is None else max(first, each.emitted_to), each.query.slide
            chosen = (at > after) & (at % slide == 0)
            instants = _visited(each, at[chosen], after // slide + 1, reached // slide)
            each.emitted_to = reached
            if len(instants):
                looked = Looked(
                    rows.filter(pa.array(chosen)), at[chosen], instants, view.complete_at(instants)
                )
                each.take(name, looked, definition)

    def give_out(self, answers: dict[str, pa.Table]) -> None:
        """Put what was found among the answers of other queries."""
        for name, each in self.registrations.items():
            if (table := each.give_out()) is not None:
                answers[name] = table

    # -- checkpoints -------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Descriptions by name, and named arrays."""
        arrays: dict[str, Any] = {}
        described = {}
        for name, each in self.registrations.items():
            described[name] = {
                "text": each.query.text, "emitted_to": each.emitted_to, "emitted": each.emitted,
                "missed": each.missed, "overflows": each.overflows,
            }  # fmt: skip
            if each.last is not None:
                for number, column in enumerate(each.last.columns):
                    arrays[f"{_prefix(name)}{number}"] = column.combine_chunks()
        return described, arrays

    def restore(
        self, description: Mapping[str, Any], arrays: dict[str, Any], parse: Callable[[str], AnyQuery]
    ) -> None:
        """State from a snapshot; `parse` makes queries of texts."""
        for name, saved in description.items():
            check_shape(saved, _STATE, "the state of a query over a view")
            query = parse(saved["text"])
            if not isinstance(query, StandingQuery):
                raise CheckpointError(f"its query '{name}' reads no view: {saved['text']}")
            standing = self.registrations[name] = Standing(
                query, saved["emitted_to"], saved["emitted"], saved["missed"], saved["overflows"]
            )
            held = Saved(arrays).under(_prefix(name))
            if f"{_prefix(name)}0" in arrays:
                schema = pa.schema(list(query.answer_schema())[:-3])
                columns = [held.column(str(number), {each.type}) for number, each in enumerate(schema)]
                standing.last = pa.table(columns, schema=schema)


def _prefix(name: str) -> str:
    """Of the arrays of a query in a checkpoint."""
    return f"standing/{name}/"


def _instants(view: MaterializedView, until: int | None, is_restless: Callable[[], bool]) -> Iterator[int]:
    """The updates of a view with an operator of its own, from the one after the last to the last that is due, each when
    the one before is done. In silence none, unless a query has something to say all the same."""
    operator, every = view.operator, view.query.every
    assert operator is not None
    target = operator.watermark if until is None else until
    while target is not None:
        coming = operator.next_event
        after = None if coming is None else coming - coming % every + every
        if operator.reached is not None and (operator.holds_events or view.holds_results or is_restless()):
            after = operator.reached + every
        if after is None or after > target:
            return
        yield after


def _visited(standing: Standing, at: Ints, first: int, last: int) -> Ints:
    """The instants at which a query over groups may have rows: where there are groups; with EMIT CHANGES, also just
    after."""
    slide = standing.query.slide
    if standing.query.is_always:
        if last - first >= _MOST_SILENT:
            standing.missed += last - first + 1 - _MOST_SILENT
            first = last + 1 - _MOST_SILENT
        return np.arange(first, last + 1) * slide
    if standing.query.emits_changes:
        at = np.concatenate(
            [at, at + slide, np.array([first * slide] if standing.is_restless else [], np.int64)]
        )
        at = at[at <= last * slide]
    return np.unique(at)
