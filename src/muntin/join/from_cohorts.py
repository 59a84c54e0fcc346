"""Answers of joins from cohorts: pieces of what is there, or copies for many queries at once if pieces are small.

    many rows    a table of slices of cohorts, without a copy: a microsecond for each piece
    few rows     the rows of many queries are gathered into one table, and each answer is a slice of that table

A column with one value in all rows repeats one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import Ints
from muntin.join.cohorts import Cohorts, Pieces, deal_out
from muntin.join.group import JoinGroup, JoinRegistration
from muntin.kernels.match import fill_leaves, list_pieces
from muntin.shard.read.evaluate import Answered

_FEW = 64  # rows of a piece that are copied in less time than it takes to cut it out of its cohort
_PART = 16  # all pairs are put in one array to gather from if that is at most so many times what is gathered
_MOST_BYTES = 1 << 28  # of such an array: texts of one array have two gigabytes at most
_TOGETHER = 1 << 16  # rows that are gathered into one table: who keeps one answer keeps all of them
_QUERIES = 256  # whose pieces are found at once
_BLOCK = 1 << 16  # rows of the longest block, of which longer columns are made
_SHORTEST = 1 << 11
_BLOCKS = 32  # of a column, as long as blocks may grow


def answers_from_cohorts(
    group: JoinGroup, asked: Sequence[tuple[JoinRegistration, int, bool]], makes: bool = True
) -> list[Answered | None]:
    """Answers of queries at a tick each, or what changed there; None for each that has to be found otherwise. `makes`:
    cohorts are made if there are none. What is only looked up now and then is not worth their memory."""
    if group.cohorts is None:
        deal_out(group)
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for place, (registration, tick, is_change) in enumerate(asked):
        cohorts = registration.cohorts
        if cohorts is not None and (makes or cohorts.has_begun):
            alike.setdefault((id(cohorts), tick, is_change), []).append(place)
    answers: list[Answered | None] = [None] * len(asked)
    for (_, tick, is_change), places in alike.items():
        cohorts = asked[places[0]][0].cohorts
        assert cohorts is not None
        found = _at_tick(group, cohorts, [asked[place][0] for place in places], tick, is_change)
        for place, table in zip(places, found, strict=False):
            answers[place] = Answered(table)
    return answers


def _at_tick(
    group: JoinGroup, cohorts: Cohorts, registrations: Sequence[JoinRegistration], tick: int, is_change: bool
) -> list[pa.Table]:
    """None at all if the cohorts do not have what the queries see."""
    watermark = group.watermark
    over = tick if watermark is None else min(tick, watermark // cohorts.key.slide)
    seen_at = tick - is_change
    if not cohorts.follow(group, registrations[0], over, seen_at):
        return []
    mark = cohorts.mark()
    try:
        if over < tick and not cohorts.follow(group, registrations[0], tick, seen_at):
            return []
        maker = _Maker(cohorts, tick, is_change)
        return [
            table
            for begin in range(0, len(registrations), _QUERIES)
            for table in maker.tables(registrations[begin : begin + _QUERIES])
        ]
    finally:
        if over < tick:  # pairs of slides that are not over may still come
            cohorts.back_to(mark)


class _Maker:
    """Makes tables of what queries see in cohorts at one tick, or of what changed there."""

    def __init__(self, cohorts: Cohorts, tick: int, is_change: bool):
        self._cohorts = cohorts
        self._tick = tick
        self._at = tick * cohorts.key.slide
        self._is_change = is_change
        self._starts, self._ends = _Instant(), _Instant()
        self._all: list[pa.Array] | None = None  # columns of all pairs, if somebody gathers from them

    def tables(self, registrations: Sequence[JoinRegistration]) -> list[pa.Table]:
        pieces = self._cohorts.pieces(registrations, self._tick, self._is_change)
        rows = pieces.many.sum(axis=1)
        few = np.flatnonzero((rows > 0) & (rows <= _FEW * np.count_nonzero(pieces.many, axis=1)))
        made: dict[int, pa.Table] = {}
        is_worth_it = len(few) and int(rows[few].sum()) * _PART >= int(pieces.start[-1])
        if is_worth_it and self._can_gather(len(pieces.start) - 1):
            for some in _in_parts(few, rows[few]):
                gathered = self._gathered([registrations[each] for each in some], _of(pieces, some))
                made |= zip(some.tolist(), gathered, strict=True)
        return [
            made[number] if number in made else self._cut(each, pieces, number)
            for number, each in enumerate(registrations)
        ]

    def _can_gather(self, cohorts: int) -> bool:
        if self._all is None and sum(each.nbytes for each in self._cohorts.values[:cohorts]) <= _MOST_BYTES:
            whole = pa.Table.from_batches(self._cohorts.values[:cohorts]).combine_chunks()
            self._all = [column.chunk(0) for column in whole.columns]
        return self._all is not None

    def _cut(self, registration: JoinRegistration, pieces: Pieces, number: int) -> pa.Table:
        """One answer of slices of cohorts."""
        query, many = registration.query, pieces.many[number]
        schema = query.emission_schema() if self._is_change else query.answer_schema()
        held = np.flatnonzero(many)
        if not len(held):
            return schema.empty_table()
        first = pieces.first[number]
        table = pa.Table.from_batches(
            [
                self._cohorts.values[cohort].slice(begin, count)
                for cohort, begin, count in zip(
                    held.tolist(), first[held].tolist(), many[held].tolist(), strict=True
                )
            ]
        )
        rows = table.num_rows
        columns = [
            self._starts.repeated(self._at - query.size, rows), self._ends.repeated(self._at, rows),
            _repeated(_truth(registration.is_complete(self._at)), rows),
        ]  # fmt: skip
        if self._is_change:
            leave, enter = int(many[: pieces.old].sum()), int(many[pieces.old :].sum())
            columns.append([*_repeated(_word("leave"), leave), *_repeated(_word("enter"), enter)])
            leaves_at = self._ends.repeated(self._at, leave) if leave else []
            if enter:  # of the cohort of this tick
                begin = int(pieces.start[pieces.old] + first[pieces.old])
                out = np.empty(enter, np.int64)
                until = self._cohorts.until[begin : begin + enter]
                fill_leaves(until, query.right.window.size, self._cohorts.key.slide, out)
                leaves_at.append(to_instants(out))
            columns.append(leaves_at)
        for chunks in columns:
            field = schema.field(table.num_columns)
            table = table.append_column(field, pa.chunked_array(chunks, field.type))
        return table

    def _gathered(self, registrations: Sequence[JoinRegistration], pieces: Pieces) -> Iterator[pa.Table]:
        """Answers of few rows each, as slices of one table."""
        assert self._all is not None
        queries, slide = [each.query for each in registrations], self._cohorts.key.slide
        rows = pieces.many.sum(axis=1)
        ends = np.cumsum(rows)
        number = np.empty(int(ends[-1]), np.int64)
        list_pieces((pieces.first + pieces.start[:-1]).ravel(), pieces.many.ravel(), number)
        index = pa.array(number)
        begins = self._at - np.array([query.size for query in queries])
        complete = np.array([each.is_complete(self._at) for each in registrations])
        columns = [
            *(column.take(index) for column in self._all),
            to_instants(np.repeat(begins, rows)),
            to_instants(np.full(len(number), self._at)),
            pa.array(np.repeat(complete, rows)),
        ]
        schema = queries[0].answer_schema()
        if self._is_change:
            schema = queries[0].emission_schema()
            leave = pieces.many[:, : pieces.old].sum(axis=1)
            enters = np.repeat(
                np.tile(np.array([0, 1], np.int8), len(rows)), np.stack([leave, rows - leave], 1).ravel()
            )
            size = np.array([query.right.window.size for query in queries])
            leaves_at = ((self._cohorts.until[number] + np.repeat(size, rows)) // slide + 1) * slide
            columns += [_WORDS.take(pa.array(enters)), to_instants(leaves_at)]
        table = pa.Table.from_arrays(columns, schema=schema)
        return (
            table.slice(end - count, count) for end, count in zip(ends.tolist(), rows.tolist(), strict=True)
        )


def _of(pieces: Pieces, queries: Ints) -> Pieces:
    return pieces._replace(first=pieces.first[queries], many=pieces.many[queries])


def _in_parts(queries: Ints, rows: Ints) -> list[Ints]:
    """Neighbours with about as many rows together as are gathered at once."""
    part = np.cumsum(rows) // _TOGETHER
    return np.split(queries, np.flatnonzero(part[1:] != part[:-1]) + 1)


# Columns with one value in all rows: pieces of one block, over and over.


def _repeated(block: pa.Array, rows: int) -> list[pa.Array]:
    full, rest = divmod(rows, len(block))
    return [block] * full + ([block.slice(0, rest)] if rest else [])


class _Instant:
    """Columns with one instant in all rows. The last block is kept for whoever asks for the same instant: memory that
    nobody has touched before costs more than what is written into it."""

    def __init__(self) -> None:
        self._at = 0
        self._block: pa.Array | None = None

    def repeated(self, at: int, rows: int) -> list[pa.Array]:
        wanted = min(max(_SHORTEST, rows // _BLOCKS), _BLOCK)
        if self._block is None or self._at != at or len(self._block) < wanted:
            self._at, self._block = at, to_instants(np.full(1 << (wanted - 1).bit_length(), at))
        return _repeated(self._block, rows)


_WORDS = pa.array(["leave", "enter"], pa.string())


@cache
def _word(change: str) -> pa.Array:
    return pa.repeat(pa.scalar(change, pa.string()), _BLOCK)


@cache
def _truth(value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), _BLOCK)
