"""Random lives of a sequence: a structure, and beside it the plain list of what it has been told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]  # of spec 1.6
Story = tuple[int, list[tuple[str, Any]]]

numbers = {
    # few different ones, so that ties are heavy, and the ends of the range
    INT: st.one_of(st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 10**12])),
    FLOAT: st.one_of(
        st.integers(-3, 3).map(float),
        st.sampled_from([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e300, 5e-324, 0.1]),
    ),
}


@st.composite
def stories(draw: st.DrawFn, dtype: np.dtype[Any], most: int = 60) -> Story:
    """The number of the first element, and what happens: extend by values, rewind or forget some."""
    values = st.lists(st.one_of(numbers[dtype], numbers[dtype], st.none()), max_size=most)
    action = st.one_of(
        st.tuples(st.just("extend"), values),
        st.tuples(st.just("extend"), values),
        st.tuples(st.just("rewind"), st.integers(0, most)),
        st.tuples(st.just("forget"), st.integers(0, most)),
    )
    return draw(st.sampled_from([0, 1, 5, 64, 1_000_003])), draw(st.lists(action, min_size=1, max_size=7))


class Told:
    """`feed` hands values, None for NULL, to the structure."""

    def __init__(self, structure: Any, feed: Callable[[Any, Sequence[Any]], None]):
        self.structure = structure
        self.feed = feed
        self.first = structure.first
        self.values: list[Any] = []

    @property
    def end(self) -> int:
        return self.first + len(self.values)

    def live(self, actions: Sequence[tuple[str, Any]]) -> Told:
        """Go through a story, checking the structure after each step."""
        for name, argument in actions:
            getattr(self, name)(argument)
            self.structure.check()
            assert (self.structure.first, self.structure.end) == (self.first, self.end)
        return self

    def extend(self, values: Sequence[Any]) -> None:
        self.values += values
        self.feed(self.structure, values)

    def rewind(self, back: int) -> None:
        end = max(self.end - back, self.first)
        del self.values[end - self.first :]
        self.structure.rewind(end)

    def forget(self, some: int) -> None:
        first = min(self.first + some, self.end)
        del self.values[: first - self.first]
        self.first = first
        self.structure.forget(first)

    def live_long(self, random: np.random.Generator, dtype: np.dtype[Any], spread: int) -> Iterator[None]:
        """Twelve rounds of hundreds of values, of which some are taken back and some forgotten; a pause after each."""
        for _ in range(12):
            self.extend(random_values(random, dtype, int(random.integers(0, 900)), spread))
            self.rewind(int(random.integers(0, 300)))
            self.forget(int(random.integers(0, 700)))
            self.structure.check()
            yield

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Every run that is remembered, an empty one, and one the wrong way round."""
        span = range(self.first, self.end + 1)
        pairs = [(lo, hi) for hi in span for lo in span if lo <= hi]
        lo, hi = zip(*pairs, (self.end, self.first - 3), strict=True)
        return np.array(lo), np.array(hi)

    def some_runs(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = np.sort(random.integers(self.first, self.end + 1, (2, count)), axis=0)
        return lo, hi

    def held(self, lo: int, hi: int) -> list[Any]:
        """Values of a run that are not NULL."""
        values = self.values[lo - self.first : hi - self.first] if lo < hi else []
        return [value for value in values if value is not None]


def columns(values: Sequence[Any], dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Values and which of them are there, as arrays."""
    valid = np.array([value is not None for value in values], np.bool_)
    return np.array([0 if value is None else value for value in values], dtype), valid


def random_values(random: np.random.Generator, dtype: np.dtype[Any], count: int, spread: int) -> list[Any]:
    """About `spread` different values, a tenth NULL."""
    values = random.integers(0, spread, count).astype(dtype).tolist()
    return [None if random.random() < 0.1 else value for value in values]


def assert_unknown_runs_are_refused(told: Told) -> None:
    """Of a structure whose first element is number 10."""
    told.extend([1] * 20)
    told.forget(5)
    for lo, hi in ((14, 30), (29, 31)):
        with pytest.raises(ValueError, match=rf"\[{lo}, {hi}\).*\[15, 30\)"):
            told.structure.query(np.array([20, lo]), np.array([30, hi]))
    for end in (14, 31):
        with pytest.raises(ValueError, match="15 to 30"):
            told.structure.rewind(end)


def assert_vectors(told: Told, name: str) -> None:
    """Spec 1.6, at m = 13: S[8,0], S[8,3], S[5,4] and nothing."""
    wanted = {"sum": [47, 25, 5, 0], "count": [8, 5, 1, 0], "max": [9, 9, 5], "min": [2, 2, 5]}[name]
    told.extend(A[:13])
    found = told.structure.query(np.array([5, 5, 8, 13]), np.array([13, 10, 9, 5]))[0]
    assert found[: len(wanted)].tolist() == wanted


def assert_memory_follows(structure: Any, add: Callable[[int], None], smallest: int) -> None:
    """State after ten times the elements is the same size (spec 1.6 v), and small once forgotten."""
    random = np.random.default_rng(0)
    sizes = []
    for _ in range(400):
        add(int(random.integers(1, 200)))
        structure.forget(structure.end - 700)
        sizes.append(structure.nbytes())
    structure.check()
    assert max(sizes[100:]) <= max(sizes[:100])
    structure.forget(structure.end)
    structure.check()
    assert structure.nbytes() <= smallest


def cuttings(data: st.DataObject, dtype: np.dtype[Any]) -> list[list[list[Any]]]:
    """The same values in one batch, cut in two, and one by one."""
    values = data.draw(st.lists(st.one_of(numbers[dtype], st.none()), min_size=1, max_size=100))
    cut = data.draw(st.integers(0, len(values)))
    return [[values], [values[:cut], values[cut:]], [[value] for value in values]]
