"""Templates by shape: what has been parsed twice need not be parsed a third time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from muntin.join_query import AnyQuery
from muntin.query import Query
from muntin.sql.shape import Hole, Shape, Value, has_values_left, shape_of
from muntin.sql.syntax import SelectSyntax
from muntin.sql.template import Template, pinned_holes
from muntin.stream import Stream

_MOST = 4096  # shapes that are remembered
_MOST_HOLES = 1000  # of a text; longer ones are rarely alike, and a template reads its text twice


class Templates:
    """Safe to share between threads: the worst that can happen is that a template is made twice.

    `read` parses the SELECT of a text, `bind` makes its query; both may raise a `Misfit`.
    """

    def __init__(
        self,
        read: Callable[[str], SelectSyntax],
        bind: Callable[[SelectSyntax, Mapping[str, Stream]], AnyQuery],
    ):
        self._read, self._bind = read, bind
        self._pinned: dict[Shape, tuple[int, ...]] = {}  # holes whose values belong to the template
        self._by_values: dict[tuple[Shape, tuple[Value, ...]], Template | None] = {}  # None: seen once

    def query(self, text: str, streams: Mapping[str, Stream]) -> AnyQuery:
        """The query of a text; the same, and with the same errors, as without templates."""
        shaped = shape_of(text)
        if shaped is None or not 0 < len(shaped[1]) <= _MOST_HOLES:
            return self._bind(self._read(text), streams)
        shape, holes = shaped
        pinned = self._pinned.get(shape)
        values = None if pinned is None else (shape, tuple(holes[number].value for number in pinned))
        template = None if values is None else self._by_values.get(values)
        filled = None if template is None else _fill(template, text, holes, streams)
        if filled is not None:
            return filled
        select = self._read(text)
        if select.join is not None or has_values_left(shape):  # few are alike
            return self._bind(select, streams)
        if pinned is None or values is None:
            pinned = pinned_holes(select, shape, holes)  # before binding, which changes the trees
            values = shape, tuple(holes[number].value for number in pinned)
        query = self._bind(select, streams)
        assert isinstance(query, Query)
        if len(self._by_values) >= _MOST:
            self._by_values.clear()
            self._pinned.clear()
        self._pinned[shape] = pinned
        is_known = values in self._by_values
        self._by_values[values] = self._template(query, text, shape, holes) if is_known else None
        return query

    def _template(self, query: Query, text: str, shape: Shape, holes: Sequence[Hole]) -> Template | None:
        """None if the query is too deep for the interpreter's stack: a text must not fail for a short cut."""
        try:
            return Template(query, self._read(text), shape, holes)
        except RecursionError:
            return None


def _fill(
    template: Template, text: str, holes: Sequence[Hole], streams: Mapping[str, Stream]
) -> Query | None:
    try:
        return template.fill(text, holes, streams)
    except RecursionError:
        return None
