"""Templates by shape: what has been parsed twice need not be parsed a third time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muntin.join_query import AnyQuery, JoinQuery
from muntin.sql.shape import Shape, has_values_left, shape_of
from muntin.sql.syntax import SelectSyntax
from muntin.sql.template import Template
from muntin.stream import Stream

_MOST = 4096  # shapes that are remembered


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
        self._by_shape: dict[Shape, Template | None] = {}  # None: seen once, or not fit for a template

    def query(self, text: str, streams: Mapping[str, Stream]) -> AnyQuery:
        """The query of a text; the same, and with the same errors, as without templates."""
        shaped = shape_of(text)
        if shaped is None or not shaped[1]:
            return self._bind(self._read(text), streams)
        shape, holes = shaped
        template = self._by_shape.get(shape)
        filled = None if template is None else template.fill(text, holes, streams)
        if filled is not None:
            return filled
        query = self._bind(self._read(text), streams)
        if isinstance(query, JoinQuery):  # few are alike
            return query
        if shape in self._by_shape and not has_values_left(shape):
            self._by_shape[shape] = Template(query, self._read(text), shape, holes)
        else:
            if len(self._by_shape) >= _MOST:
                self._by_shape.clear()
            self._by_shape[shape] = None
        return query
