"""A template: a query with holes, made from one text, that other texts of the same shape fill.

To read a text with the parser and to look up its names takes most of a millisecond, to fill a template a
tenth of that. A value that is more than an operand (the `0.99` of a quantile, the item of APPROX_COUNT) is
*pinned*: a template serves only texts with that value. Whatever is unusual is left to the parser, which also
finds the words for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from muntin.expression import Expression
from muntin.join_query import AnyQuery
from muntin.query import Call, Key, Output, Query
from muntin.sql.bind import at_odds, bind_apart, scope_of
from muntin.sql.expressions import Scope
from muntin.sql.place import Misfit, Span, place
from muntin.sql.shape import Blank, Hole, Shape, Value, has_values_left, literals, operands, shape_of
from muntin.sql.sources import Sources, find_source, find_stream
from muntin.sql.syntax import Name, SelectSyntax
from muntin.stream import Stream
from muntin.view_query import ViewQuery
from muntin.window import Window

Piece = Blank | Expression | None  # what has no hole is the same in all queries of a template


def pinned_holes(select: SelectSyntax, shape: Shape, holes: Sequence[Hole]) -> tuple[int, ...]:
    """The numbers of the holes whose values are more than operands, in order; `select` is not yet bound."""
    free = operands(select)
    pinned = {
        same
        for same, hole in zip(shape.same, holes, strict=True)
        if not isinstance(hole.value, Window) and (hole.start, hole.end) not in free
    }
    return tuple(sorted(pinned))


class Template:
    """`query` and `select` are those of one text with this shape. To bind a SELECT changes its trees, so the
    query must not have been made from that `select`. `fill` takes only texts with the same pinned values."""

    def __init__(self, query: Query, select: SelectSyntax, shape: Shape, holes: Sequence[Hole]):
        self.query = query
        self._values = [hole.value for hole in holes]
        self._start = select.start[0]
        self._rest = (
            self._start + len(select.text) - holes[-1].end
        )  # after the last hole all texts are the same
        pinned = pinned_holes(select, shape, holes)
        self._hole_at: dict[Span, int] = {
            (hole.start, hole.end): same
            for same, hole in zip(shape.same, holes, strict=True)
            if same not in pinned
        }
        hole_of = {holes[same].value: same for same in reversed(shape.same)}
        self._window = None if query.window is None else hole_of[query.window]
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
        self._calls = [
            (
                each.function,
                self._part(each.argument, other.argument, rows),
                hole_of[each.window],
                self._part(each.filter, other.filter, rows, "FILTER"),
                each.parameters,
            )
            for each, other in zip(query.calls, apart.calls, strict=True)
        ]
        self._are_keys_open, self._are_outputs_open = (
            any(isinstance(part, Blank) for part in parts) for parts in (self._keys, self._outputs)
        )
        self._may_be_equal = any(isinstance(part, Blank) for call in self._calls for part in call)  # calls

    def fill(self, text: str, holes: Sequence[Hole], stream: Stream) -> Query | None:
        """The query of a text over a stream equal to the template's; None if it takes the parser to tell.
        O(expressions with holes)."""
        query, values = self.query, [hole.value for hole in holes]
        try:
            calls = tuple(
                Call(
                    function,
                    _filled(argument, values),
                    cast(Window, values[window]),
                    _filled(kept, values),
                    parameters,
                )
                for function, argument, window, kept, parameters in self._calls
            )
            if not self._are_as_before(calls):
                return None
            return Query(
                text[self._start : self._rest + holes[-1].end],
                stream,
                self._fill_keys(values) if self._are_keys_open else query.keys,
                _filled(self._where, values),
                None if self._window is None else cast(Window, values[self._window]),
                calls,
                self._fill_outputs(values) if self._are_outputs_open else query.outputs,
                _filled(self._having, values),
                query.hint,
                query.tolerance,
                query.emits_changes,
                top=query.top,  # all its values are pinned
            )
        except Misfit:
            return None

    def _fill_keys(self, values: Sequence[Value]) -> tuple[Key, ...]:
        made = (_filled(key, values) for key in self._keys)
        return tuple(Key(key.name, each) for key, each in zip(self.query.keys, made, strict=True) if each)

    def _fill_outputs(self, values: Sequence[Value]) -> tuple[Output, ...]:
        made = (_filled(output, values) for output in self._outputs)
        return tuple(
            Output(output.name, each) for output, each in zip(self.query.outputs, made, strict=True) if each
        )

    def _are_as_before(self, calls: Sequence[Call]) -> bool:
        """Whether calls are as many, and OVER windows are not at odds, as in the query that was checked. Windows
        that differ there differ here: which holes hold the same is part of the shape."""
        if len(calls) < 2:
            return True
        if self.query.window is None and any(at_odds(call.window, calls) for call in calls):
            return False
        return not self._may_be_equal or len(set(calls)) == len(calls)

    def _part(
        self,
        expression: Expression | None,
        apart: Expression | None,
        scope: Scope,
        condition_of: str | None = None,
    ) -> Piece:
        """How an expression is filled in; `apart` is the same, compiled from the text of the template alone."""
        if expression is None or apart is None:
            return None
        hole_of = {
            id(each): self._hole_at[span]
            for each in literals(apart.tree)
            if (span := place(each)) is not None and span in self._hole_at
        }
        if not hole_of:
            return expression
        return Blank(expression, apart.tree, hole_of, scope, condition_of, self._values)


def _filled(part: Piece, values: Sequence[Value]) -> Expression | None:
    return part.fill(values) if isinstance(part, Blank) else part


# Templates by shape: what has been parsed twice need not be parsed a third time.

_MOST = 4096  # shapes that are remembered
_MOST_HOLES = 1000  # of a text; longer ones are rarely alike, and a template reads its text twice
_Fitting = tuple[Shape, tuple[Value, ...], Stream]  # texts that one template serves: also their pinned values


class _Outline(NamedTuple):
    """What is known of a shape: the name after FROM, and which holes are pinned."""

    stream: Name
    pinned: tuple[int, ...]


class Templates:
    """Safe to share between threads: the worst that can happen is that a template is made twice. And between
    engines: streams of one name that differ have templates of their own.

    `read` parses the SELECT of a text, `bind` makes its query; both may raise a `Misfit`.
    """

    def __init__(
        self,
        read: Callable[[str], SelectSyntax],
        bind: Callable[[SelectSyntax, Sources], AnyQuery],
    ):
        self._read, self._bind = read, bind
        self._outlines: dict[Shape, _Outline] = {}
        self._by_fit: dict[_Fitting, Template | None] = {}  # None: seen once

    def query(self, text: str, streams: Sources) -> AnyQuery:
        """The query of a text; the same, and with the same errors, as without templates."""
        shaped = shape_of(text)
        if shaped is None or not 0 < len(shaped[1]) <= _MOST_HOLES:
            return self._bind(self._read(text), streams)
        shape, holes = shaped
        outline = self._outlines.get(shape)
        filled = None if outline is None else self._filled(outline, text, shape, holes, streams)
        if filled is not None:
            return filled
        select = self._read(text)
        is_of_view = isinstance(find_source(select.stream, streams), ViewQuery)  # and bound to its windows
        if select.join is not None or is_of_view or has_values_left(shape):  # few are alike
            return self._bind(select, streams)
        if outline is None:  # before binding, which changes the trees
            outline = _Outline(select.stream, pinned_holes(select, shape, holes))
        query = self._bind(select, streams)
        assert isinstance(query, Query)
        if len(self._by_fit) >= _MOST:
            self._by_fit.clear()
            self._outlines.clear()
        self._outlines[shape] = outline
        fitting = shape, _pinned_values(outline, holes), query.stream
        is_known = fitting in self._by_fit
        self._by_fit[fitting] = self._template(query, text, shape, holes) if is_known else None
        return query

    def _filled(
        self, outline: _Outline, text: str, shape: Shape, holes: Sequence[Hole], streams: Sources
    ) -> Query | None:
        """The query of a text, if there is a template for it."""
        try:
            stream = find_stream(outline.stream, streams)
        except Misfit:
            return None  # the parser knows where the name stands in this text
        template = self._by_fit.get((shape, _pinned_values(outline, holes), stream))
        try:
            return None if template is None else template.fill(text, holes, stream)
        except RecursionError:
            return None

    def _template(self, query: Query, text: str, shape: Shape, holes: Sequence[Hole]) -> Template | None:
        """None if the query is too deep for the interpreter's stack: a text must not fail for a short cut."""
        try:
            return Template(query, self._read(text), shape, holes)
        except RecursionError:
            return None


def _pinned_values(outline: _Outline, holes: Sequence[Hole]) -> tuple[Value, ...]:
    return tuple([holes[number].value for number in outline.pinned])
