"""What every `Intervals` promises, for R-INT, B-INT, L-INT and the monotone deque.

A structure joins by having an entry in SUBJECTS. The reference is a plain Python recompute over the
elements of a run; it shares no code with the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import THOROUGH, some_of
from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.structure.b_int import BInt
from muntin.structure.intervals import Intervals
from muntin.structure.l_int import LInt
from muntin.structure.monotone_deque import MonotoneDeque
from muntin.structure.r_int import RInt

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
LEAST, MOST = -(2**63), 2**63 - 1
TINY = 1e-300  # below, numbers have fewer digits
WINDOWS = [(3, 0), (5, 0), (5, 2), (8, 5), (13, 13), (20, 0), (31, 7), (64, 0)]
A = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


def l_int(component: Any, dtype: np.dtype, first: int = 0) -> LInt:
    return LInt(component, dtype, first, WINDOWS)


class Subject(NamedTuple):
    """A structure, and what it is asked for here."""

    make: Callable[..., Intervals]
    component: str
    dtype: np.dtype

    def __repr__(self) -> str:
        return f"{self.make.__name__}-{self.component}-{self.dtype}"

    def new(self, first: int = 0) -> Any:
        return self.make(COMPONENTS[self.component], self.dtype, first)


def is_tried(kind: type[Intervals], component: str, dtype: np.dtype) -> bool:
    """Ordinary runs give each component of L-INT one type, since each pair compiles for some four seconds."""
    if kind is RInt:
        return RInt.serves(component, dtype)
    return THOROUGH > 0 or kind is not LInt or (component in ("count", "max", "min")) == (dtype == INT)


def subjects() -> Iterator[Subject]:
    for make, kind in ((RInt, RInt), (BInt, BInt), (l_int, LInt), (MonotoneDeque, MonotoneDeque)):
        for component in sorted(kind.components):
            for dtype in (INT, FLOAT):
                if is_tried(kind, component, dtype):
                    yield Subject(make, component, dtype)


SUBJECTS = list(subjects())
EXAMPLES = some_of(settings().max_examples, 25)  # for each of dozens of subjects
every_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=repr)


class Element(NamedTuple):
    value: Any  # None is NULL
    at: int


# ---- the reference: values and times in, what the component should be out


def lift(component: str, dtype: np.dtype, elements: Sequence[Element]) -> Partial:
    """Elements as a structure receives them: one partial each."""
    columns = [reference(component, dtype, [element]) for element in elements]
    kinds = [kind for kind, _ in COMPONENTS[component].identity(dtype)]
    return tuple(np.array([column[i] for column in columns], dtype=kind) for i, kind in enumerate(kinds))


def reference(component: str, dtype: np.dtype, elements: Sequence[Element]) -> tuple[Any, ...]:
    """The partial over some elements: exact numbers where the structures may round."""
    there = [element for element in elements if element.value is not None]
    values = [element.value for element in there]
    if component == "count":
        return (len(values),)
    if component == "sum":
        if dtype == INT:
            total = sum(values)
            return (total + 2**63) % 2**64 - 2**63, float(total)
        return float_sum(values), 0.0
    if component == "min":
        numbers = [value for value in values if value == value]
        return (min(numbers) if numbers else MOST if dtype == INT else math.nan,)
    if component == "max":
        if any(value != value for value in values):
            return (math.nan,)
        return (max(values, default=LEAST if dtype == INT else -math.inf),)
    if component == "first":
        return tuple(there[0]) if there else (0, MOST)
    if component == "last":
        return tuple(there[-1]) if there else (0, LEAST)
    if component == "arg_max":
        highest = max(there, key=lambda element: (rank(element), -element.at), default=None)
        return (0, LEAST, MOST) if highest is None else (highest.value, rank(highest), highest.at)
    return moments(values)


def rank(element: Element) -> int:
    """What arg_max compares by: any number, some of them the same."""
    return element.at * 7 % 5


def float_sum(values: Sequence[float]) -> float:
    if all(math.isfinite(value) for value in values):
        return math.fsum(values)
    return sum(value for value in values if not math.isfinite(value))


def moments(values: Sequence[Any]) -> tuple[int, float, float]:
    if not values:
        return 0, 0.0, 0.0
    if not all(math.isfinite(value) for value in values):
        return len(values), math.nan, math.nan
    mean = sum(map(Fraction, values)) / len(values)
    m2 = sum((Fraction(value) - mean) ** 2 for value in values)
    return len(values), float(mean), float(m2) if m2 < 10**308 else math.inf


def assert_answers(subject: Subject, found: Partial, runs: Sequence[Sequence[Element]]) -> None:
    """Each found partial is the reference's over its run; sums and moments as near as promised."""
    wanted = [reference(subject.component, subject.dtype, run) for run in runs]
    if subject.component == "sum" and subject.dtype == FLOAT:
        assert_float_sums(found, wanted, runs)
    elif subject.component == "m2":
        assert_moments(found, wanted, runs)
    else:
        exact = len(found) - (subject.component == "sum")
        for i in range(exact):
            np.testing.assert_array_equal(found[i], np.array([row[i] for row in wanted], found[i].dtype))
        if subject.component == "sum":  # the shadow is the exact sum but for rounding
            scale = [sum(abs(element.value or 0) for element in run) for run in runs]
            shadow = np.array([row[1] for row in wanted])
            assert bool(np.all(np.abs(found[1] - shadow) <= 1e-12 * np.array(scale, float)))


def assert_float_sums(found: Partial, wanted: Sequence[Any], runs: Sequence[Sequence[Element]]) -> None:
    high, low = found
    total = np.where(np.isfinite(high), high + low, high)
    for i, (run, (right, _)) in enumerate(zip(runs, wanted, strict=True)):
        if math.isfinite(right):
            greatest = max((abs(element.value or 0.0) for element in run), default=0.0)
            assert abs(total[i] - right) <= 1e-15 * abs(right) + 1e-27 * greatest
        else:
            np.testing.assert_equal(total[i], right)


def assert_moments(found: Partial, wanted: Sequence[Any], runs: Sequence[Sequence[Element]]) -> None:
    for run, right, count, mean, m2 in zip(runs, wanted, *found, strict=True):
        assert count == right[0]
        greatest = max((abs(float(element.value or 0)) for element in run), default=0.0)
        if math.isfinite(right[2]):
            assert abs(mean - right[1]) <= 1e-12 * greatest + TINY
            assert abs(m2 - right[2]) <= 1e-9 * right[2] + 1e-12 * len(run) * greatest * greatest + TINY
        else:
            assert not math.isfinite(m2)


# ---- random sequences and actions

FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 7.0, 1e16, -1e16, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 2, 3, 7, 1000, -(10**12), 2**62, -(2**62), MOST, LEAST]
numbers = {
    INT: st.one_of(st.integers(-9, 9), st.sampled_from(INTS)),
    FLOAT: st.one_of(st.integers(-9, 9).map(float), st.floats(-1e6, 1e6), st.sampled_from(FLOATS)),
}


@st.composite
def stories(draw: st.DrawFn, dtype: np.dtype) -> tuple[int, list[tuple[str, Any]]]:
    """The number of the first element, and what happens: extend by values, rewind or forget some."""
    values = st.lists(st.one_of(numbers[dtype], numbers[dtype], st.none()), max_size=24)
    action = st.one_of(
        st.tuples(st.just("extend"), values),
        st.tuples(st.just("extend"), values),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("forget"), st.integers(0, 20)),
    )
    return draw(st.sampled_from([0, 1, 5, 64, 1_000_003])), draw(st.lists(action, min_size=1, max_size=8))


class Told:
    """A structure, and beside it the plain list of what it has been told."""

    def __init__(self, subject: Subject, first: int):
        self.subject = subject
        self.structure = subject.new(first)
        self.elements: list[Element] = []
        self.first = first
        self.clock = 0

        self.only_suffixes = isinstance(self.structure, MonotoneDeque)

    @property
    def end(self) -> int:
        return self.first + len(self.elements)

    def extend(self, values: Sequence[Any]) -> None:
        new = []
        for value in values:
            self.clock += int(value is None)  # many elements share a time
            new.append(Element(value, self.clock))
        self.elements += new
        self.structure.extend(lift(self.subject.component, self.subject.dtype, new))

    def rewind(self, back: int) -> None:
        end = max(self.end - back, self.first)
        del self.elements[end - self.first :]
        self.clock = self.elements[-1].at if self.elements else self.clock
        self.structure.rewind(end)

    def forget(self, some: int) -> None:
        first = min(self.first + some, self.end)
        del self.elements[: first - self.first]
        self.first = first
        self.structure.forget(first)

    def runs(self, most: int = 500) -> tuple[np.ndarray, np.ndarray]:
        """All runs that may be asked for, or some of them if there are very many, and an empty one."""
        span = range(self.first, self.end + 1)
        pairs = [(lo, hi) for hi in span for lo in span if lo < hi]
        if self.only_suffixes:
            pairs = [(lo, hi) for lo, hi in pairs if hi == self.end]
        if len(pairs) > most:
            pairs = [pairs[i] for i in np.random.default_rng(0).choice(len(pairs), most, replace=False)]
        lo, hi = zip(*pairs, (self.end, self.first), strict=True)
        return np.array(lo), np.array(hi)

    def assert_all(self) -> None:
        self.structure.check()
        assert (self.structure.first, self.structure.end) == (self.first, self.end)
        lo, hi = self.runs()
        self.assert_right(lo, hi)

    def assert_right(self, lo: np.ndarray, hi: np.ndarray) -> None:
        runs = [self.elements[a - self.first : b - self.first] if a < b else []
                for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]  # fmt: skip
        assert_answers(self.subject, self.structure.query(lo, hi), runs)


@every_subject
class TestIntervals:
    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def test_agrees_with_recompute(self, subject: Subject, data: st.DataObject) -> None:
        """Whatever was appended, taken back or forgotten, every run that is remembered is right."""
        first, story = data.draw(stories(subject.dtype))
        told = Told(subject, first)
        for action, argument in story:
            getattr(told, action)(argument)
            told.structure.check()
        told.assert_all()

    @pytest.mark.parametrize("seed", range(some_of(2, 50)))
    def test_long_sequences(self, subject: Subject, seed: int) -> None:
        """Rings grow, wrap and shrink; runs of all lengths stay right."""
        random = np.random.default_rng(seed)
        told = Told(subject, int(random.integers(0, 100)))
        for _ in range(12):
            count = int(random.integers(0, 300))
            values: list[Any] = random.integers(-1000, 1000, count).tolist()
            if subject.dtype == FLOAT:
                values = (random.normal(size=count) * 10.0 ** random.integers(-3, 4, count)).tolist()
            told.extend([None if random.random() < 0.1 else value for value in values])
            if random.random() < 0.5:
                told.rewind(int(random.integers(0, 100)))
            if random.random() < 0.5:
                told.forget(int(random.integers(0, 500)))
            told.structure.check()
            lo, hi = np.sort(random.integers(told.first, told.end + 1, (2, 60)), axis=0)
            if told.only_suffixes:
                hi[:] = told.end
            told.assert_right(lo, hi)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def test_batches_do_not_matter(self, subject: Subject, data: st.DataObject) -> None:
        """One batch, one by one, or cut anywhere: the answers are the same to the bit (spec 1.6 vi)."""
        values = data.draw(st.lists(st.one_of(numbers[subject.dtype], st.none()), min_size=1, max_size=90))
        cut = data.draw(st.integers(0, len(values)))
        elements = [Element(value, at) for at, value in enumerate(values)]
        answers = []
        for cuts in ([0, len(values)], [0, cut, len(values)], list(range(len(values) + 1))):
            told = Told(subject, 3)
            for start, stop in pairwise(cuts):
                told.structure.extend(lift(subject.component, subject.dtype, elements[start:stop]))
            told.elements = elements
            answers.append([array.tobytes() for array in told.structure.query(*told.runs())])
        assert answers[0] == answers[1] == answers[2]

    def test_runs_add_up(self, subject: Subject) -> None:
        """f(l, r) = f(l, k) + f(k, r) (spec 1.6 vii), with the components' own merge for +."""
        told = Told(subject, 0)
        told.extend([float(value) if subject.dtype == FLOAT else value for value in A])
        if told.only_suffixes:
            pytest.skip("it has no f(l, k)")
        lo, middle, hi = np.array(
            [(a, b, c) for a in range(16) for b in range(a, 17) for c in range(b, 17)]
        ).T
        left, right = told.structure.query(lo, middle), told.structure.query(middle, hi)
        whole = told.structure.query(lo, hi)
        slot = np.arange(len(lo))
        COMPONENTS[subject.component].merge(slot[:1], slot[-1:] + 1, 0, slot, right, left)
        for one, other in zip(left, whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)

    def test_memory_follows_what_is_remembered(self, subject: Subject) -> None:
        """State after ten times the elements is the same size (spec 1.6 v), and small once forgotten."""
        structure = subject.new()
        random = np.random.default_rng(0)
        identity = COMPONENTS[subject.component].start(subject.dtype, 1)
        sizes = []
        for _ in range(400):
            lifted = tuple(np.resize(array, int(random.integers(1, 200))) for array in identity)
            structure.extend(lifted)
            structure.forget(structure.end - 700)
            sizes.append(structure.nbytes())
        structure.check()
        assert max(sizes[100:]) <= 1.1 * max(sizes[:100])
        structure.forget(structure.end)
        assert structure.nbytes() <= 16 * 1024 * len(identity)

    def test_unknown_runs_are_refused(self, subject: Subject) -> None:
        told = Told(subject, 10)
        told.extend([1] * 20)
        told.forget(5)
        for lo, hi in ((14, 30), (29, 31), (0, 1000)):
            with pytest.raises(ValueError, match=rf"\[{lo}, {hi}\).*\[15, 30\)"):
                told.structure.query(np.array([20, lo]), np.array([30, hi]))
        for end in (14, 31):
            with pytest.raises(ValueError, match="15 to 30"):
                told.structure.rewind(end)
        told.assert_all()

    def test_forgetting_is_never_undone(self, subject: Subject) -> None:
        """Forgetting less than before changes nothing; more than there is means all."""
        told = Told(subject, 0)
        told.extend([1, 2, 3, 4])
        told.forget(2)
        told.structure.forget(1)
        told.assert_all()
        told.structure.forget(99)
        assert (told.structure.first, told.structure.end) == (4, 4)
        told.elements, told.first = [], 4
        told.extend([5, 6])
        told.assert_all()

    def test_read_only_and_strided_arrays(self, subject: Subject) -> None:
        """Arrays from elsewhere are taken as they come."""
        structure, again = subject.new(), subject.new()
        lifted = lift(subject.component, subject.dtype, [Element(value, value) for value in (1, 2, 3, 4)])
        again.extend(tuple(array[::2].copy() for array in lifted))
        for array in lifted:
            array.flags.writeable = False
        structure.extend(tuple(array[::2] for array in lifted))
        runs = np.array([[0, 1], [2, 2]])
        runs.flags.writeable = False
        for one, other in zip(structure.query(*runs), again.query(*runs), strict=True):
            np.testing.assert_array_equal(one, other)


# m, (NL, NR), then SUM, COUNT, MAX, MIN over A; None where the window is empty (spec 1.6)
VECTORS = [
    (13, (8, 0), 47, 8, 9, 2),
    (13, (8, 3), 25, 5, 9, 2),
    (13, (5, 4), 5, 1, 5, 5),
    (3, (8, 0), 8, 3, 4, 1),
    (3, (8, 2), 3, 1, 3, 3),
    (3, (8, 3), 0, 0, None, None),
    (2, (8, 5), 0, 0, None, None),
]
# tau, (TL, TR), then first and last position (from 1), SUM and MAX
TIMES = [1, 1, 2, 4, 4, 4, 7, 9, 9, 12, 12, 13, 15, 18, 18, 20]
TIME_VECTORS = [
    (13, (5, 0), (8, 12), 27, 8),
    (13, (9, 4), (7, 9), 13, 6),
    (14, (1, 0), None, 0, None),
    (14, (2, 0), (12, 12), 8, 8),
    (4, (3, 0), (3, 6), 19, 9),
    (4, (3, 2), (3, 3), 4, 4),
    (25, (5, 0), None, 0, None),
]
whole = [each for each in SUBJECTS if each.dtype == INT and each.component in ("sum", "count", "max", "min")]


def of_integers(subject: Subject, values: Sequence[int], first: int = 0) -> Any:
    structure = subject.new(first)
    structure.extend(lift(subject.component, INT, [Element(value, at) for at, value in enumerate(values)]))
    return structure


@pytest.mark.parametrize("subject", whole, ids=repr)
class TestVectors:
    def test_tuple_windows(self, subject: Subject) -> None:
        column = ["sum", "count", "max", "min"].index(subject.component)
        for m, (reach, to), *wanted in VECTORS:
            structure = of_integers(subject, A[:m])
            if isinstance(structure, MonotoneDeque) and to:
                continue
            found = structure.query(np.array([max(m - reach, 0)]), np.array([m - to]))[0][0]
            nothing = COMPONENTS[subject.component].start(INT, 1)[0][0]
            assert found == (nothing if wanted[column] is None else wanted[column])

    def test_time_windows(self, subject: Subject) -> None:
        """Positions found by binary search on time (spec 6.1), then any structure will do."""
        if subject.component not in ("sum", "max"):
            pytest.skip("no vector")
        for tau, (reach, to), positions, total, greatest in TIME_VECTORS:
            lo = np.searchsorted(TIMES, tau - reach, side="right")
            hi = np.searchsorted(TIMES, tau - to, side="right")
            assert positions is None or (lo + 1, hi) == positions
            structure = of_integers(subject, A)
            if isinstance(structure, MonotoneDeque):
                structure.rewind(int(hi))
            found = structure.query(np.array([lo]), np.array([hi]))[0][0]
            assert found == (total if subject.component == "sum" else LEAST if greatest is None else greatest)

    @pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 8, 13, 16, 31])
    def test_every_window_after_every_arrival(self, subject: Subject, most: int) -> None:
        """All (NL, NR) up to Nmax, from nothing to more than three windows' worth (spec 1.6 i)."""
        structure = subject.new()
        if isinstance(structure, LInt):
            windows = [(reach, to) for reach in range(most + 1) for to in range(reach + 1)]
            structure = LInt(structure.component, INT, 0, windows)
        values = np.random.default_rng(most).integers(-50, 50, 3 * most + 5).tolist()
        elements = [Element(value, at) for at, value in enumerate(values)]
        reach, to = np.array([(a, b) for a in range(most + 1) for b in range(a + 1)]).T
        if isinstance(structure, MonotoneDeque):
            reach, to = reach[to == 0], to[to == 0]
        for m in range(len(values) + 1):
            lo, hi = np.maximum(m - reach, 0), m - to
            runs = [elements[max(a, 0) : max(b, 0)] for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
            reads = getattr(structure, "reads", 0)
            assert_answers(subject, structure.query(lo, hi), runs)
            if isinstance(structure, LInt):
                assert structure.reads - reads <= 2 * np.count_nonzero(lo < hi)
            structure.extend(lift(subject.component, INT, elements[m : m + 1]))
            structure.forget(m + 1 - most)
