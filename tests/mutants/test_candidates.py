"""Mutations: each kind is made where it can be noticed, nowhere else, and is code that differs."""

from __future__ import annotations

import ast
import random

import pytest

from mutants.candidates import candidates
from mutants.project import read, sources
from mutants.sample import sample


def made(code: str) -> set[str]:
    """All mutants of the body of a function, as lines."""
    source = f"def f():\n    {code}\n"
    return {each.after(source) for each in candidates("a.py", source)}


@pytest.mark.parametrize(
    ("code", "mutants"),
    [
        ("return a < b", {"return (a <= b)"}),
        ("return a is None", {"return (a is not None)"}),
        ("return a <= b < c", {"return (a < b < c)", "return (a <= b <= c)"}),
        ("return a and b and c", {"return (a or b or c)"}),
        ("return a if b else c", {"return a if (not (b)) else c"}),
        ("return [x for x in y if z]", {"return [x for x in y if (not (z))]"}),
        ("return a - b", {"return (a + b)"}),
        ("return x[0], True", {"return x[1], True", "return x[0], False"}),
        ("return g(a, b.c)", {"return g(b.c, a)"}),
        ("self.x = y", {"pass"}),
        ("x += y", {"pass"}),
        ("g()", {"pass"}),
        ("raise Error(1 + 2 if a else 3)", {"pass"}),
        # what no test of behaviour could notice, or any would at once
        ("x = y", set()),
        ("x: int = y", set()),
        ("return 'a' + b", set()),
        ("return f'{1 + a}'", set()),
        ("return max(a, b)", set()),
        ("return isinstance(a, b | c)", set()),
        ("return 2**62", set()),
        ("return a - (2**63 - 1)", {"return (a + (2 ** 63 - 1))"}),
        ("assert a < b", set()),
        ("return g(a, a)", set()),
        ("return g(a, np.int64)", set()),
        ("return zip(a, b, strict=True)", {"return zip(b, a, strict=True)"}),
    ],
)
def test_mutants_of_a_statement(code: str, mutants: set[str]) -> None:
    assert made(code) == mutants


def test_what_describes_state_is_left_alone() -> None:
    for name in ("check", "__repr__", "nbytes"):
        assert not candidates("a.py", f"def {name}(a):\n    return a < 1\n")
    assert not candidates("a.py", "SIZE = 3 if a else 4\n")
    assert not candidates("a.py", "@g(1)\ndef f(a: x[1]) -> y[2]:\n    '''3'''\n")


def test_mutants_of_our_own_sources_are_code_that_differs() -> None:
    """A sample of all files; bytes beyond ASCII move no place."""
    chance = random.Random(1)
    for path in chance.sample(sources(), 12):
        source = read(path)
        found = candidates(path, source)
        for each in chance.sample(found, min(6, len(found))):
            changed = each.apply(source)
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
            assert each.before(source) != each.after(source)


def test_a_sample_is_of_all_folders_and_depends_on_the_seed_alone() -> None:
    found = [each for path in sources()[::4] for each in candidates(path, read(path))]
    chosen = sample(found, 200, 1)
    assert len(chosen) == 200 == len({(each.path, each.line) for each in chosen})
    assert {each.folder for each in chosen} == {each.folder for each in found}
    assert {each.kind for each in chosen} == {each.kind for each in found}
    assert chosen == sample(found, 200, 1) != sample(found, 200, 2)
    assert len(sample(found[:5], 200, 1)) == len({(each.path, each.line) for each in found[:5]})


def test_a_sample_is_nearly_the_same_when_other_code_changes() -> None:
    found = [each for path in sources()[::4] for each in candidates(path, read(path))]
    chosen = set(sample(found, 100, 1))
    others = [each for each in found if each in chosen or hash(each) % 20]
    assert len(chosen & set(sample(others, 100, 1))) >= 90
