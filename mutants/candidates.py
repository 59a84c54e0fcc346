"""Candidates: every mutation of a file that a test could notice.

What no test of behaviour could notice is not mutated: texts and messages, annotations, decorators, assertions, and
functions that describe or check state. Constants of modules are left out as well, since most of them are sizes of
buffers. `docs/decisions/0024-mutants.md` has the reasons.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from mutants.mutation import Mutation

# Functions about the code's own state: what they say is for people, or for assertions; or that only compile early.
_DESCRIBING = {"__repr__", "__str__", "__hash__", "check", "nbytes", "held_bytes", "warm_up"}
_COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
# These calls mean the same, or fail at once, with their arguments in another order.
_UNORDERED = {
    "min", "max", "minimum", "maximum", "gcd", "lcm", "union", "intersection", "array_equal", "equal", "add",
    "multiply", "logical_and", "logical_or", "and_kleene", "or_kleene", "getattr", "hasattr", "setattr",
    "isinstance", "issubclass",
}  # fmt: skip

Place = ast.stmt | ast.expr
Change = tuple[Place, str, str]  # a node, the kind of the mistake, and the text that takes the node's place


def candidates(path: str, source: str) -> list[Mutation]:
    """All mutations of one file, from top to bottom.

    >>> for each in candidates("a.py", "def f(a):\\n    if a.x < 3:\\n        a.forget()\\n"):
    ...     print(each.kind, "|", each.text)
    negated condition | (not a.x < 3)
    comparison | (a.x <= 3)
    constant | 4
    dropped statement | pass
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, kind, text in _within(ast.parse(source), None):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutation(path, kind, node.lineno, begin, end, text))
    return found


def _within(node: ast.AST, function: str | None) -> Iterator[Change]:
    """The changes of a node and of all below it; `function` is the name of the function around them."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if function in _DESCRIBING:
        return
    if function is not None:
        yield from _changes(node, function)
    for child in _mutable_children(node):
        yield from _within(child, function)


def _mutable_children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Call) and _name(node.func) in ("isinstance", "issubclass", "cast"):
        return  # about types
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return  # `zip` says that both are as long, which no input can change
    if isinstance(node, ast.BinOp) and _is_number(node):
        return  # a limit
    # A patch gives a function new code; its defaults were evaluated when its module was imported.
    skipped = {"annotation", "returns", "decorator_list", "defaults", "kw_defaults"}
    for name, value in ast.iter_fields(node):
        if name not in skipped:
            below = value if isinstance(value, list) else [value]
            yield from (each for each in below if isinstance(each, ast.AST))


def _changes(node: ast.AST, function: str) -> Iterator[Change]:
    """The changes of the node itself."""
    if isinstance(node, ast.If | ast.IfExp):
        yield from _negated(node.test)
    elif isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield from _negated(condition)
    elif isinstance(node, ast.stmt) and _can_be_dropped(node, function):
        yield node, "dropped statement", "pass"
    elif isinstance(node, ast.Compare):
        yield from _compared(node)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, "and/or", f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in _COMPUTED
        and not (_is_number(node) or _is_text(node.left) or _is_text(node.right))
    ):
        made = ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
        yield node, "arithmetic", f"({ast.unparse(made)})"
    elif isinstance(node, ast.Constant):
        yield from _other_constant(node)
    elif isinstance(node, ast.Call) and _name(node.func) not in _UNORDERED:
        yield from _swapped(node)


def _negated(test: ast.expr) -> Iterator[Change]:
    """`==` and the like are negated by another sign already."""
    is_sign = isinstance(test, ast.Compare) and len(test.ops) == 1
    if not (
        is_sign and isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    ):
        yield (
            test,
            "negated condition",
            f"(not {ast.unparse(test)})" if is_sign else f"(not ({ast.unparse(test)}))",
        )


def _can_be_dropped(node: ast.stmt, function: str) -> bool:
    """Whether the code runs without the statement: without the assignment of a name it would fail at once."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        is_kept = all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        return is_kept and function != "__init__"
    if isinstance(node, ast.Return):
        return node.value is None
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Raise | ast.Delete)


def _compared(node: ast.Compare) -> Iterator[Change]:
    for i, sign in enumerate(node.ops):
        signs = [*node.ops[:i], _COMPARED[type(sign)](), *node.ops[i + 1 :]]
        yield node, "comparison", f"({ast.unparse(ast.Compare(node.left, signs, node.comparators))})"


def _other_constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield node, "constant", str(not node.value)
    elif isinstance(node.value, int | float):
        yield node, "constant", repr(node.value + 1)


def _swapped(node: ast.Call) -> Iterator[Change]:
    """Neighbours that are names: of other expressions most could not stand in the other's place, nor could types."""
    for i, (one, two) in enumerate(pairwise(node.args)):
        if _is_value(one) and _is_value(two):
            arguments = [*node.args[:i], two, one, *node.args[i + 2 :]]
            made = ast.Call(node.func, arguments, node.keywords)
            if ast.unparse(one) != ast.unparse(two):
                yield node, "swapped arguments", ast.unparse(made)


def _is_value(node: ast.expr) -> bool:
    is_of_library = isinstance(node, ast.Attribute) and _name(node.value) in ("np", "pa", "pc")  # np.int64
    return isinstance(node, ast.Name | ast.Attribute) and not is_of_library


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_number(node: ast.expr) -> bool:
    """Whether it is a number whatever happens, such as 2**63 - 1."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
