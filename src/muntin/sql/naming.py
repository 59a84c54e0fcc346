"""Names of answer columns: the alias, else something readable; never two alike."""

from __future__ import annotations

import re

from sqlglot import exp

from muntin.sql.call import is_call
from muntin.sql.expression_parser import Over
from muntin.sql.syntax import Name

_RESERVED = ("window_start", "window_end", "complete")
_CALL = re.compile(r"\$\d+")


def is_reserved(name: str) -> bool:
    """Whether answers have a column of that name in any case, be it only inside (`$0`, `$1`, …)."""
    return name.casefold() in _RESERVED or bool(_CALL.fullmatch(name))


class Names:
    """The column names of one query's answers, handed out in order."""

    def __init__(self) -> None:
        self._taken = {name.casefold() for name in _RESERVED}

    def take(self, alias: Name) -> str:
        """An alias as it was written, or a fault if it cannot be used."""
        if is_reserved(alias.text):
            raise alias.misfit(f"'{alias.text}' is a column of every answer; choose another name")
        fold = alias.text.casefold()
        if fold in self._taken:
            raise alias.misfit(f"two columns of the answer are called '{alias.text}'; choose another name")
        self._taken.add(fold)
        return alias.text

    def take_default(self, wanted: str) -> str:
        """`wanted`, or with a number if that is taken."""
        name, number = wanted, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name.casefold())
        return name


def default_name(tree: exp.Expr, position: int) -> str:
    """What to call a SELECT item without an alias.

    >>> from sqlglot import parse_one
    >>> default_name(exp.Anonymous(this="SUM", expressions=[exp.column("shares")]), 2)
    'sum_shares'
    >>> default_name(parse_one("a + b"), 2)
    'column_2'
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Column):
        return tree.name
    if not is_call(tree):
        return f"column_{position}"
    function = tree.this if isinstance(tree, Over) else tree
    words = [function.name.lower()]
    argument = function.expressions[0] if function.expressions else None
    if isinstance(argument, exp.Distinct):
        words.append("distinct")
        argument = argument.expressions[0] if argument.expressions else None
    if isinstance(argument, exp.Column):
        words.append(argument.name)
    return "_".join(words)
