"""The names of a join: columns of its streams, each called by its own name or as `t.price`."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from muntin.errors import nearest
from muntin.sql.expressions import Scope, quoted
from muntin.sql.place import misfit
from muntin.stream import Stream


@lru_cache(maxsize=256)
def pair_scope(names: tuple[str, ...], streams: tuple[Stream, ...], shared: frozenset[str]) -> PairScope:
    """One scope for all joins that call their streams the same, so that equal expressions are compiled once."""
    return PairScope(names, streams, shared)


class PairScope(Scope):
    """Columns of pairs, or of what more than two streams make; a bare name means the one stream that has it.

    `names` are what the query calls the streams; `shared` columns are equal on all sides (USING), so that
    a bare name means any.
    """

    def __init__(self, names: tuple[str, ...], streams: tuple[Stream, ...], shared: frozenset[str]):
        self.names = names
        self.shared = shared
        self._place = {
            f"{name}.{field.name}": (side, field.name)
            for side, (name, stream) in enumerate(zip(self.names, streams, strict=True))
            for field in stream.schema
        }
        types = {
            name: streams[side].schema.field(column).type for name, (side, column) in self._place.items()
        }
        super().__init__(types, " JOIN ".join(self.names))
        self._sides = tuple(
            Scope(
                {field.name: field.type for field in stream.schema},
                f"stream '{stream.name}'",
                left_out=stream.left_out,
            )
            for stream in streams
        )
        self._side_of = {name: side for side, name in enumerate(self.names)}
        # a stream keeps its own name beside an alias, where that is clear
        for side, stream in enumerate(streams):
            if sum(each.name == stream.name for each in streams) == 1:
                self._side_of.setdefault(stream.name, side)
        self._side_by_fold = {name.casefold(): side for name, side in self._side_of.items()}

    def text(self, name: str) -> str:
        side, column = self.split(name)
        return f"{quoted(self.names[side])}.{quoted(column)}"

    def short(self, name: str) -> str:
        return self.split(name)[1]

    def split(self, name: str) -> tuple[int, str]:
        """The side (0 is left) and the column of a name."""
        return self._place[name]

    def find(self, name: str, is_quoted: bool) -> str | None:
        if name in self.types:
            return name
        found = [
            (side, column) for side, each in enumerate(self._sides) if (column := each.find(name, is_quoted))
        ]
        if not found or (len(found) > 1 and found[0][1] not in self.shared):
            return None
        side, column = found[0]
        return f"{self.names[side]}.{column}"

    def resolve(self, node: exp.Column) -> str:
        if not isinstance(node.this, exp.Identifier):
            return super().resolve(node)
        is_quoted = bool(node.this.quoted)
        if node.table:
            side = self._side(node)
            column = self._sides[side].find(node.name, is_quoted)
            if column is None:
                hint = self._sides[side].hint(node.name)
                raise misfit(node, f"'{node.table}' has no column '{node.name}'{hint}")
            return f"{self.names[side]}.{column}"
        name = self.find(node.name, is_quoted)
        if name is not None:
            return name
        having = [
            n for n, each in zip(self.names, self._sides, strict=True) if each.find(node.name, is_quoted)
        ]
        if having:
            some = "both" if len(self.names) == 2 else "several"
            written = " or ".join(f"{name}.{node.name}" for name in having)
            raise misfit(node, f"'{node.name}' is in {some} streams; write {written}")
        known = [column for each in self._sides for column in each.types]
        none = "neither" if len(self.names) == 2 else "no"
        raise misfit(node, f"{none} stream has a column '{node.name}'{nearest(node.name, known)}")

    def _side(self, node: exp.Column) -> int:
        table = node.args["table"]
        sides = self._side_of if table.args.get("quoted") else self._side_by_fold
        side = sides.get(node.table if table.args.get("quoted") else node.table.casefold())
        if side is None or node.args.get("db"):
            raise misfit(node, f"unknown qualifier '{node.table}'{nearest(node.table, self.names)}")
        return side

    def sides_in(self, tree: exp.Expr) -> set[int]:
        """The sides whose columns a tree reads."""
        return {self.split(self.resolve(node))[0] for node in tree.find_all(exp.Column)}
