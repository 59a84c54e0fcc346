"""A template: a query with holes, made from one text, that other texts of the same shape fill.

To read a text with the parser and to look up its names takes most of a millisecond, to fill a template a
tenth of that. A value that is more than an operand (the `0.99` of a quantile) stays what it is in the template,
and whatever is unusual is left to the parser, which also finds the words for errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muntin.expression import Expression
from muntin.query import Call, Key, Output, Query
from muntin.sql.bind import bind_apart, find_stream, moves, scope_of
from muntin.sql.blank import Blank, literals, operands
from muntin.sql.expressions import Scope
from muntin.sql.place import Misfit, Span, place
from muntin.sql.shape import Hole, Shape, Value
from muntin.sql.syntax import SelectSyntax
from muntin.stream import Stream
from muntin.window import Window

Part = Blank | Expression | None  # what has no hole is the same in all queries of a template


class Template:
    """`query` and `select` are those of one text with this shape. To bind a SELECT changes its trees, so the
    query must not have been made from that `select`."""

    def __init__(self, query: Query, select: SelectSyntax, shape: Shape, holes: Sequence[Hole]):
        self.query = query
        self._stream = select.stream
        self._start = select.start[0]
        self._rest = (
            self._start + len(select.text) - holes[-1].end
        )  # after the last hole all texts are the same
        spans = [(hole.start, hole.end) for hole in holes]
        free = operands(select) | {
            span for span, hole in zip(spans, holes, strict=True) if isinstance(hole.value, Window)
        }
        pinned = {same for same, span in zip(shape.same, spans, strict=True) if span not in free}
        self._pinned = [(number, holes[number].value) for number in sorted(pinned)]
        self._hole_at: dict[Span, int] = {
            span: same for same, span in zip(shape.same, spans, strict=True) if same not in pinned
        }
        self._hole_of = {holes[same].value: same for same in reversed(shape.same)}  # of a window
        apart, answers = bind_apart(select, query.stream)
        rows = scope_of(select, query.stream)
        self._where = self._part(query.where, apart.where, rows, "WHERE")
        self._having = self._part(query.having, apart.having, answers, "HAVING")
        self._keys = [
            self._part(each.expression, other.expression, rows)
            for each, other in zip(query.keys, apart.keys, strict=True)
        ]
        self._outputs = [
            self._part(each.expression, other.expression, answers)
            for each, other in zip(query.outputs, apart.outputs, strict=True)
        ]
        self._arguments = [
            self._part(each.argument, other.argument, rows)
            for each, other in zip(query.calls, apart.calls, strict=True)
        ]
        self._filters = [
            self._part(each.filter, other.filter, rows, "FILTER")
            for each, other in zip(query.calls, apart.calls, strict=True)
        ]

    def fill(self, text: str, holes: Sequence[Hole], streams: Mapping[str, Stream]) -> Query | None:
        """The query of a text over these streams; None if it takes the parser to tell. O(expressions with
        holes)."""
        query, values = self.query, [hole.value for hole in holes]
        stream = find_stream(self._stream, streams)
        is_known = stream is query.stream or stream == query.stream
        if not is_known or any(values[number] != value for number, value in self._pinned):
            return None
        try:
            calls = tuple(
                Call(
                    call.function,
                    _filled(argument, values),
                    self._window(call.window, values),
                    _filled(kept, values),
                    call.parameters,
                )
                for call, argument, kept in zip(query.calls, self._arguments, self._filters, strict=True)
            )
            if not self._are_as_before(calls):
                return None
            keys = [_filled(key, values) for key in self._keys]
            outputs = [_filled(output, values) for output in self._outputs]
            return Query(
                text[self._start : self._rest + holes[-1].end],
                stream,
                tuple(Key(key.name, made) for key, made in zip(query.keys, keys, strict=True) if made),
                _filled(self._where, values),
                None if query.window is None else self._window(query.window, values),
                calls,
                tuple(
                    Output(each.name, made) for each, made in zip(query.outputs, outputs, strict=True) if made
                ),
                _filled(self._having, values),
                query.hint,
                query.tolerance,
                query.emits_changes,
            )
        except Misfit:
            return None

    def _are_as_before(self, calls: Sequence[Call]) -> bool:
        """Whether calls are as many, and OVER windows move together, as in the query that was checked."""
        if len(calls) < 2:
            return True
        move_together = self.query.window is not None or len({moves(call.window) for call in calls}) == 1
        return move_together and len(set(calls)) == len(calls)

    def _window(self, window: Window, values: Sequence[Value]) -> Window:
        found = values[self._hole_of[window]]
        assert isinstance(found, Window)
        return found

    def _part(
        self,
        expression: Expression | None,
        apart: Expression | None,
        scope: Scope,
        condition_of: str | None = None,
    ) -> Part:
        """How an expression is filled in; `apart` is the same, compiled from the text of the template alone."""
        if expression is None or apart is None:
            return None
        hole_of = {
            id(each): self._hole_at[span]
            for each in literals(apart.tree)
            if (span := place(each)) is not None and span in self._hole_at
        }
        return Blank(expression, apart.tree, hole_of, scope, condition_of) if hole_of else expression


def _filled(part: Part, values: Sequence[Value]) -> Expression | None:
    return part.fill(values) if isinstance(part, Blank) else part
