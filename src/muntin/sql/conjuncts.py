"""Conjuncts: the conditions that AND joins to one, whatever the parentheses around them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Each condition by itself, from left to right."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    else:
        yield tree
