"""A structure at work, one input at a time or in batches, with the same verbs for both.

* `OneByOne` calls the structure's kernels from compiled loops (`one_by_one.py`).
* `InBatches` calls the structure itself from Python, with many inputs a call. Mixed inputs: the updates
  of a batch go first, and its look-ups are answered as of its end.

Both remember `kept` elements and all values ever inserted, so that answers can be computed again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom import one_by_one
from benchmarks.figures.arasu_widom.workload import BATCH, CHECKED, Inputs, Ints, Runs, lifted, recomputed
from muntin.aggregates.component import COMPONENTS, cells_of
from muntin.aggregates.contract import Partial
from muntin.structure.b_int import BInt
from muntin.structure.baseline.materialize_none import MaterializeNone
from muntin.structure.baseline.psoup import PSoup
from muntin.structure.materialize_all import MaterializeAll
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.r_int import RInt

INT64 = np.dtype(np.int64)
CLASSES = {each.name: each for each in (RInt, BInt, PSoup, MaterializeAll, MaterializeNone, QuantileTree)}


def filled(name: str, component: str, value: Ints) -> Any:
    """A structure that holds some values; materialize_all also the windows of all sizes up to theirs."""
    if name == "quantile_tree":
        tree = QuantileTree(INT64)
        tree.extend(value, np.ones(len(value), np.bool_))
        return tree
    more = {"sizes": range(len(value) + 1)} if name == "materialize_all" else {}
    structure = CLASSES[name](COMPONENTS[component], INT64, **more)
    structure.extend(lifted(component, value))
    return structure


class Driver:
    """What both modes have in common: the values so far, and the comparison with NumPy."""

    mode: str

    def __init__(self, name: str, component: str, value: Ints):
        self.name, self.component = name, component
        self.kept = self.end = len(value)
        self.structure = filled(name, component, value)
        self.history = [value]
        self.asked = 0  # look-ups so far

    def take(self, inputs: Inputs) -> Ints:
        """Work off mixed inputs; the answers of the look-ups."""
        before = self.end
        answers = self._take(inputs)
        self._remember(inputs.value)
        self.asked += len(answers)
        self.last = (inputs, before, answers)
        return answers

    def insert(self, value: Ints, partial: Partial) -> None:
        """Insert values, given as they are and as partials."""
        self._insert(partial)
        self._remember(value)

    def check_inputs(self) -> None:
        """Compare answers to the last mixed inputs with NumPy."""
        inputs, before, answers = self.last
        hi = before + inputs.updates_before(self.mode == "batch")
        some = np.linspace(0, len(hi) - 1, min(CHECKED, len(hi))).astype(np.int64)
        hi, width = hi[some], inputs.width[some]
        self._compare(Runs(hi - width, hi, np.ones_like(hi)), answers[some])

    def check_runs(self, runs: Runs) -> None:
        """Look some windows up and compare with NumPy."""
        self._compare(runs.sample(), self.look_up(runs.sample()))

    def _compare(self, runs: Runs, answers: Ints) -> None:
        expected = recomputed(self.component, np.concatenate(self.history), runs)
        wrong = np.flatnonzero(np.asarray(answers) != np.asarray(expected, np.int64))
        if len(wrong):
            run = f"{self.component} of [{runs.lo[wrong[0]]}, {runs.hi[wrong[0]]})"
            raise AssertionError(
                f"{self.name}, {self.mode}: {run} is {answers[wrong[0]]}, NumPy has {expected[wrong[0]]}"
            )

    def _remember(self, value: Ints) -> None:
        self.history.append(value)
        self.end += len(value)

    def look_up(self, runs: Runs) -> Ints:
        """Answer runs."""
        self.asked += len(runs.lo)
        return self._look_up(runs)

    def _look_up(self, runs: Runs) -> Ints:
        raise NotImplementedError

    def _take(self, inputs: Inputs) -> Ints:
        raise NotImplementedError

    def _insert(self, partial: Partial) -> None:
        raise NotImplementedError


class OneByOne(Driver):
    mode = "scalar"

    def __init__(self, name: str, component: str, value: Ints):
        super().__init__(name, component, value)
        self.state = state_of(self.structure)
        if component == "quantile":
            lifted_one, nothing, out = ((np.zeros(1, np.int64),) for _ in range(3))
        else:
            lifted_one, nothing, out = (COMPONENTS[component].start(INT64, 1) for _ in range(3))
        lo, hi = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self.hand = one_by_one.Hand(lifted_one, lo, hi, nothing, out)

    def _look_up(self, runs: Runs) -> Ints:
        answers = np.zeros(len(runs.lo), np.int64)
        if self.name == "quantile_tree":
            one_by_one.select_each(self.state.rows, runs.lo, runs.hi, runs.ranks(), answers)
        else:
            one_by_one.look_up_each(self.state, self.kept, self.end, self.hand, runs.lo, runs.hi, answers)
        return answers

    def _take(self, inputs: Inputs) -> Ints:
        answers = np.zeros(len(inputs.width), np.int64)
        one_by_one.take_inputs(
            self.state, self.kept, self.end, self.hand, inputs.is_update, inputs.lifted, inputs.width, answers
        )
        return answers

    def _insert(self, partial: Partial) -> None:
        one_by_one.insert_each(self.state, self.kept, self.end, self.hand, partial)


class InBatches(Driver):
    mode = "batch"

    def _look_up(self, runs: Runs) -> Ints:
        """Answer runs; those of a batch must ask for the same percentile."""
        answers = [self._query(runs, slice(at, at + BATCH)) for at in range(0, len(runs.lo), BATCH)]
        return np.concatenate(answers)

    def _query(self, runs: Runs, part: slice) -> Ints:
        if self.name == "quantile_tree":
            phi = Fraction(int(runs.percent[part.start]), 100)
            return self.structure.query(runs.lo[part], runs.hi[part], [phi])[0][:, 0]
        return self.structure.query(runs.lo[part], runs.hi[part])[0]

    def _take(self, inputs: Inputs) -> Ints:
        structure, answers = self.structure, []
        for updates, widths in inputs.batches:
            if len(updates[0]):
                structure.extend(updates)
                structure.forget(structure.end - self.kept)
            if len(widths):
                answers.append(
                    structure.query(structure.end - widths, np.full(len(widths), structure.end))[0]
                )
        return np.concatenate(answers) if answers else np.zeros(0, np.int64)

    def _insert(self, partial: Partial) -> None:
        size = min(BATCH, self.kept)  # a batch larger than what is kept would make rings grow and shrink
        valid = np.ones(size, np.bool_)
        for at in range(0, len(partial[0]), size):
            some = tuple(array[at : at + size] for array in partial)
            if self.name == "quantile_tree":
                self.structure.extend(some[0], valid[: len(some[0])])
            else:
                self.structure.extend(some)
            self.structure.forget(self.structure.end - self.kept)


MODES: dict[str, type[Driver]] = {each.mode: each for each in (OneByOne, InBatches)}


def state_of(structure: Any) -> Any:
    """The arrays of a structure, for the compiled loops."""
    match structure:
        case RInt():
            return one_by_one.RunningSums(structure._prefix)
        case BInt():
            return one_by_one.BaseIntervals(structure._cells, structure._capacity)
        case PSoup():
            return one_by_one.Tree(structure._nodes, structure._state, structure._cells)
        case QuantileTree():
            return one_by_one.SortedIntervals(structure._runs.rows)
        case MaterializeAll():
            elements, tail = _roomy(structure)
            return one_by_one.Totals(*elements, tail, structure.sizes, *structure._answer)
        case MaterializeNone():
            elements, tail = _roomy(structure)
            return one_by_one.Elements(cells_of(structure.component.name, INT64, elements), tail)
    raise TypeError(f"no compiled loops for {type(structure).__name__}")


def _roomy(structure: Any) -> tuple[Partial, Ints]:
    """The elements of a structure in arrays with room for as many again and more, and where they end."""
    stored = [structure._elements[name] for name in structure._elements.names()]
    arrays = tuple(np.concatenate([array, np.zeros(4_096, array.dtype)]) for array in stored)
    return arrays, np.array([len(stored[0])])
