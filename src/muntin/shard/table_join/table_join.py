"""A query that joins a stream with tables, at work: its answers at an instant, from windows by key and rows by slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import NONE, LeftOut, either
from muntin.shard.read.reading import reading_of
from muntin.shard.state import State
from muntin.shard.table_join.joined_rows import JoinedRows, Sources, fitted, passing
from muntin.shard.table_join.made import Made, bounds_of
from muntin.shard.table_join.measured import Measured, lengths_of, measure, merged
from muntin.shard.table_join.rule_rows import NO_KEY, RuleRows, RulesRead
from muntin.store.saved import Saved
from muntin.table_query import TableQuery

_NOBODY: Ints = np.zeros(0, np.int64)
_SPARE = 1024  # answers that are remembered though no row is theirs any more


class Groups(NamedTuple):
    """Joined rows, and the answer that each is part of, by its id; answers in the order of their rows."""

    joined: JoinedRows
    answer: Ints
    version: tuple[int, ...]  # of keys and tables that they are of


class TableJoin:
    """Of one query. Answers have ids, by the values of GROUP BY: EMIT CHANGES remembers who is in by them."""

    def __init__(self, name: str, query: TableQuery):
        self.name = name
        self.query = query
        self._ids = KeyDictionary([key.expression.type for key in query.keys]) if query.keys else None
        self._many = 0  # joined rows
        self.inside: Ints = _NOBODY  # EMIT CHANGES: ids of answers, ascending

    # -- who is joined -----------------------------------------------------------------------------

    def sources(self, state: State) -> Sources:
        """The keys and rows as they are."""
        rows = tuple(state.tables[side.table.name] for side in self.query.sides)
        return Sources(self.query, state.keys[self.query.source.key_expressions], rows, state.owns)

    def groups(self, state: State, sources: Sources) -> Groups:
        """All joined rows by answer; O(keys and rows) if any has come or gone."""
        version = (len(sources.keys), *(rows.version for rows in sources.rows))
        known: Groups | None = state.prepared.joined.get(self.name)
        if known is not None and known.version == version:
            return known
        joined = sources.join()
        if self._ids is None:  # it has an answer, whoever is joined
            joined = joined.and_nobody()
        known = Groups(joined, self._answers(sources, joined), version)
        state.prepared.joined[self.name] = known
        return known

    def _answers(self, sources: Sources, joined: JoinedRows) -> Ints:
        if self._ids is None:
            return np.zeros(len(joined), np.int64)
        self._many = len(joined)
        if not len(joined):
            return _NOBODY
        expressions = [key.expression for key in self.query.keys]
        columns = sources.columns({name for each in expressions for name in each.columns}, joined)
        return self._ids.encode([each.evaluate(columns) for each in expressions])

    def sweep(self, state: State) -> None:
        """Forget answers that nobody has any more, if these are many; those that are in stay."""
        if self._ids is None or len(self._ids) <= _SPARE + 2 * (self._many + len(self.inside)):
            return
        kept = np.zeros(len(self._ids), np.bool_)
        kept[self.inside] = True
        self.inside = self._ids.retain(kept)[self.inside]
        state.prepared.forget_joined(self.name)  # those that have rows get ids anew

    # -- answers -----------------------------------------------------------------------------------

    def lookup(self, state: State, instant: int | None, key: Sequence[pa.Array] | None) -> Answered:
        """All answers at an instant, or those of some keys; the tables are as they are now. None: no event has come."""
        query, sources = self.query, self.sources(state)
        if instant is None:
            if query.keys:
                return Answered(query.answer_schema().empty_table())
            return self._passed(self._before_the_first(state, sources))
        if key is None:
            return self._all(state, sources, instant)
        groups = self._groups_of(state, sources, key)
        ids = np.unique(groups.joined.key[groups.joined.key >= 0])
        return self._passed(self._make(state, sources, groups, instant, ids))

    def answer(self, state: State, instant: int) -> Answered:
        """All answers at an instant."""
        return self._all(state, self.sources(state), instant)

    def _all(self, state: State, sources: Sources, instant: int) -> Answered:
        if (rules := self._rules(state, sources)) is not None:
            read = rules.read(state, reading_of(state, self.name), sources, instant)
            if read is not None:
                slots = self._in_order(sources, rules, rules.passing(read))
                return self._tabulated(self._made_of_rules(state, sources, rules, read, slots, instant), None)
        return self._passed(self._make(state, sources, self.groups(state, sources), instant, None))

    def _groups_of(self, state: State, sources: Sources, key: Sequence[pa.Array]) -> Groups:
        """The joined rows of answers with some keys."""
        assert self._ids is not None
        if self._rules(state, sources) is not None:
            (side,), (rows,) = self.query.sides, sources.rows
            columns = {f"{side.name}.{name}": name for name in rows.table.key}
            of = {
                columns[each.expression.columns[0]]: column
                for each, column in zip(self.query.keys, key, strict=True)
            }
            slots = np.unique(rows.find([of[name] for name in rows.table.key]))
            slots = passing(side, rows, slots[slots >= 0])
            joined = JoinedRows(sources.keys_of(slots), (slots,))
            joined = joined.at(np.lexsort((rows.order(slots), joined.key)))
            return Groups(joined.at(joined.key >= 0), self._answers(sources, joined.at(joined.key >= 0)), ())
        groups, asked = self.groups(state, sources), self._ids.find(key)
        some = np.isin(groups.answer, asked[asked >= 0])
        return Groups(groups.joined.at(some), groups.answer[some], groups.version)

    def _passed(self, made: Made) -> Answered:
        """Those that pass HAVING."""
        passes, left_out = self._passing(made)
        answered = self._tabulated(made, np.flatnonzero(passes))
        return answered._replace(left_out=left_out.also(answered.left_out))

    def changes(self, state: State, instant: int) -> Changed:
        """Who enters and who leaves at an instant, after one at which `inside` were in. An answer of which a value does
        not exist stays as it was."""
        sources = self.sources(state)
        if (rules := self._rules(state, sources)) is not None:
            read = rules.read(state, reading_of(state, self.name), sources, instant)
            if read is not None:
                return self._rules_changed(state, sources, rules, read, instant)
        made = self._make(state, sources, self.groups(state, sources), instant, None)
        passes, left_out = self._passing(made)
        unsure = made.answer[made.unknown] if made.unknown is not None else _NOBODY
        now = np.union1d(made.answer[passes], np.intersect1d(self.inside, unsure))
        changed = np.setxor1d(self.inside, now, assume_unique=True)
        rows = np.flatnonzero(np.isin(made.answer, changed))
        nowhere = np.setdiff1d(changed, made.answer[rows], assume_unique=True)
        told = [(self._tabulated(made, rows), made.answer[rows])]
        return self._changed(state, sources, told, nowhere, left_out, instant)

    def _changed(self, state: State, sources: Sources, told: list[tuple[Answered, Ints]], nowhere: Ints,
                 left_out: LeftOut, instant: int) -> Changed:  # fmt: skip
        """Answers that enter or leave, with their ids; those that are `nowhere` leave without a joined row."""
        if len(nowhere):
            told.append(
                (self._tabulated(self._without_rows(state, sources, nowhere, instant), None), nowhere)
            )
        tables, inside = [], self.inside
        for answered, ids in told:
            if answered.gone is not None:
                ids, left_out = ids[~answered.gone], left_out.also(answered.left_out)
            if len(ids):
                change = pa.array(np.where(np.isin(ids, self.inside), "leave", "enter"), pa.string())
                columns = [*answered.table.columns, change]
                tables.append(pa.Table.from_arrays(columns, schema=self.query.emission_schema()))
                inside = np.setxor1d(inside, ids, assume_unique=True)
        return Changed(pa.concat_tables(tables) if tables else None, inside, left_out)

    # -- rules that are rows -----------------------------------------------------------------------

    def _rules(self, state: State, sources: Sources) -> RuleRows | None:
        """The rows of the table as rules, if that is what they are."""
        reading = reading_of(state, self.name)
        if (
            self._ids is None
            or not self.query.is_of_rows
            or len(reading.windows) > 1
            or len(reading.presence) > 1
        ):
            return None
        if not reading.windows[0].window.is_time:
            return None
        rules: RuleRows | None = state.prepared.rules.get(self.name)
        if rules is None:
            rules = state.prepared.rules[self.name] = RuleRows(self._ids)
        rules.follow(sources, self.inside)
        self._many = len(rules)
        return rules

    def _rules_changed(
        self, state: State, sources: Sources, rules: RuleRows, read: RulesRead, instant: int
    ) -> Changed:
        slots, nowhere = rules.changed(read)
        is_met = rules.key[slots] >= NO_KEY
        nowhere = np.concatenate([nowhere, rules.answer[slots[~is_met]]])
        shown = self._in_order(sources, rules, slots[is_met])
        made = self._made_of_rules(state, sources, rules, read, shown, instant)
        told = [(self._tabulated(made, None), made.answer)]
        changed = self._changed(state, sources, told, nowhere, NONE, instant)
        if not changed.left_out.rows:
            rules.mark(slots, changed.inside)
        return changed

    def _in_order(self, sources: Sources, rules: RuleRows, slots: Ints) -> Ints:
        """Rules in the order of answers: by the first appearance of their keys, and then by rows."""
        return slots[np.lexsort((sources.rows[0].order(slots), rules.key[slots]))]

    def _made_of_rules(
        self, state: State, sources: Sources, rules: RuleRows, read: RulesRead, slots: Ints, instant: int
    ) -> Made:
        joined, measured = JoinedRows(rules.key[slots], (slots,)), rules.measured(read, slots)
        there = np.ones(len(slots), np.bool_)
        every = np.arange(len(slots))
        return self._made(state, sources, joined, rules.answer[slots], there, measured, every, instant)

    # -- steps -------------------------------------------------------------------------------------

    def _make(self, state: State, sources: Sources, groups: Groups, instant: int, ids: Ints | None) -> Made:
        """The answers that groups would have, but for HAVING; those without an event too, if they may have to leave."""
        query, joined = self.query, groups.joined
        measured = measure(state, reading_of(state, self.name), sources, joined, instant, ids)
        is_there = np.ones(len(joined), np.bool_) if query.is_table_first else measured.present()
        if measured.lengths is not None:
            is_there &= measured.lengths > 0
        if query.merges or not query.keys:
            made = self._merge(state, sources, groups, measured, is_there, instant)
            return made if query.emits_changes else made.at(np.flatnonzero(made.is_there))
        rows = np.arange(len(joined)) if query.emits_changes else np.flatnonzero(is_there)
        return self._made(
            state, sources, joined.at(rows), groups.answer[rows], is_there[rows], measured, rows, instant
        )

    def _made(self, state: State, sources: Sources, joined: JoinedRows, answer: Ints, is_there: Bools,
              measured: Measured, rows: Ints, instant: int) -> Made:  # fmt: skip
        """Answers of one joined row each."""
        found = measured.found(rows)
        lengths = None if measured.lengths is None else measured.lengths[rows]
        bounds = bounds_of(measured.reading, found, instant, lengths)
        return Made(
            state,
            measured.reading,
            sources,
            self._ids,
            joined,
            answer,
            is_there,
            found,
            bounds,
            measured.complete(rows),
        )

    def _merge(self, state: State, sources: Sources, groups: Groups, measured: Measured, is_there: Bools,
               instant: int) -> Made:  # fmt: skip
        """One row for each answer, where its first joined row stands, of what all of them hold."""
        answers, first, number = np.unique(groups.answer, return_index=True, return_inverse=True)
        in_order = np.argsort(first)
        place = np.empty(len(first), np.int64)
        place[in_order] = np.arange(len(first))
        answers, first, number = answers[in_order], first[in_order], place[number.ravel()]
        there = np.zeros(len(answers), np.bool_)
        np.logical_or.at(there, number, is_there | (self._ids is None))
        made = self._made(state, sources, groups.joined.at(first), answers, there, measured, first, instant)
        made.found = [merged(each, number, len(answers)) for each in measured.found(np.arange(len(number)))]
        return made

    def _without_rows(self, state: State, sources: Sources, answers: Ints, instant: int) -> Made:
        """Answers that no joined row is part of any more: a row of a table that GROUP BY determines may still be there,
        though WHERE lets it pass no longer."""
        keys = [] if self._ids is None else self._ids.take(answers)
        slots = (self._row_of(number, sources, keys, len(answers)) for number in range(len(sources.rows)))
        joined = JoinedRows(np.full(len(answers), -1), tuple(slots))
        measured = measure(state, reading_of(state, self.name), sources, joined, instant, _NOBODY)
        nobody = np.zeros(len(answers), np.bool_)
        return self._made(state, sources, joined, answers, nobody, measured, np.arange(len(answers)), instant)

    def _row_of(self, number: int, sources: Sources, keys: Sequence[pa.Array], many: int) -> Ints:
        """The slots of the rows of a table that the keys of answers determine; -1 where there is none."""
        side, rows = self.query.sides[number], sources.rows[number]
        told: dict[str, pa.Array] = {}
        source = {key.name: place for place, key in enumerate(self.query.source.keys)}
        for key, column in zip(self.query.keys, keys, strict=True):
            if not key.expression.is_column:
                continue
            name = key.expression.columns[0]
            if name in source:
                told |= {on: column for place, on in side.on if place == source[name]}
            elif name.startswith(f"{side.name}."):
                told[name.removeprefix(f"{side.name}.")] = column
        if not set(side.table.key) <= told.keys():
            return np.full(many, -1)
        return rows.find([fitted(told[name], rows.table.column(name).type) for name in side.table.key])

    def _before_the_first(self, state: State, sources: Sources) -> Made:
        """The one answer of a query without keys, before there is an instant."""
        joined = JoinedRows(_NOBODY, (_NOBODY,) * len(sources.rows)).and_nobody()
        measured = measure(state, reading_of(state, self.name), sources, joined, 0, _NOBODY)
        one, is_there = np.zeros(1, np.int64), np.ones(1, np.bool_)
        made = self._made(state, sources, joined, one, is_there, measured, one, 0)
        made.bounds = [pa.nulls(1, pa.timestamp("us"))] * 2
        return made

    def _passing(self, made: Made) -> tuple[Bools, LeftOut]:
        """Which answers are there and pass HAVING; `made` is told of which that is not known."""
        having = self.query.having
        if having is None or not len(made.answer):
            return made.is_there, NONE
        verdict = made.evaluate(having)
        passes = made.is_there & np.asarray(verdict.column.fill_null(False))
        if verdict.lost is None:
            return passes, NONE
        made.unknown = verdict.lost & made.is_there
        return passes & ~verdict.lost, LeftOut(int(made.unknown.sum()), verdict.reason)

    def _tabulated(self, made: Made, rows: Ints | None) -> Answered:
        """Some answers as a table, without those of which a value does not exist."""
        made = made if rows is None else made.at(rows)
        query = self.query
        if not len(made.answer):
            return Answered(query.answer_schema().empty_table())
        values = [made.evaluate(output.expression) for output in query.outputs]
        keys = [] if self._ids is None else self._ids.take(made.answer)
        columns = [*keys, *(each.column for each in values), *made.bounds, pa.array(made.complete)]
        table = pa.Table.from_arrays(columns, schema=query.answer_schema())
        gone: Bools | None = None
        reason = ""
        for each in values:
            if each.lost is not None and each.lost.any():
                gone, reason = either(gone, each.lost), reason or each.reason
        if gone is None:
            return Answered(table)
        return Answered(table.filter(pa.array(~gone)), LeftOut(int(gone.sum()), reason), gone)

    # -- what there is to see ----------------------------------------------------------------------

    def without_window(self, state: State) -> Ints:
        """The slots of rows that are to say how long their windows are, and do not; O(rows)."""
        span = self.query.span
        assert span is not None
        side, rows = self.query.sides[span.side], self.sources(state).rows[span.side]
        slots = passing(side, rows, rows.slots)
        (column,) = rows.read(slots, [span.column]).values()
        found: Ints = slots[lengths_of(column, span.most, span.step) == 0]
        return found

    def explain(self, state: State) -> str:
        """Which tables are joined by which columns, and rows that have no window."""
        tables = ", ".join(
            f"{side} by {', '.join(column for _, column in side.on)}" for side in self.query.sides
        )
        told = [f"joins {tables}"]
        if self.query.span is not None and len(slots := self.without_window(state)):
            table = self.sources(state).rows[self.query.span.side]
            key = table.read(slots[:1], table.table.key)
            named = ", ".join(f"{name} = {column[0].as_py()!r}" for name, column in key.items())
            told.append(f"{len(slots):,} rows of {table.table.name} have no window, the first with {named}")
        return "; ".join(told)

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Array]:
        """Who is in, by the values of GROUP BY."""
        if self._ids is None:
            return {"0": pa.array(self.inside)}
        return {str(number): column for number, column in enumerate(self._ids.take(self.inside))}

    def restore(self, saved: Saved) -> None:
        """Have those in who were in at a snapshot."""
        if self._ids is None:
            (column,) = [saved.column("0", {pa.int64()})]
            if column.null_count or len(column) > 1 or any(column.to_pylist()):
                raise saved.damaged("0", "names more than the one answer there is")
            self.inside = np.zeros(len(column), np.int64)
            return
        columns: list[pa.Array] = []
        for number, key in enumerate(self.query.keys):
            many = len(columns[0]) if columns else None
            columns.append(saved.column(str(number), {key.expression.type}, many))
        self.inside = np.unique(self._ids.encode(columns)) if len(columns[0]) else _NOBODY
        if len(self.inside) < len(columns[0]):
            raise saved.damaged("0", "has keys twice")


def join_of(state: State, name: str) -> TableJoin | None:
    """A query at work that joins tables; None if it joins none."""
    registration = state.registrations[name]
    if registration.join is None and registration.joined is not None:
        registration.join = TableJoin(name, registration.joined)
    return registration.join


class Changed(NamedTuple):
    """Rows that enter or leave, None if there are none; who is in from then on; and rows left out."""

    table: pa.Table | None
    inside: Ints
    left_out: LeftOut
