"""Indexing: a variant with its shape, and the arithmetic of which part holds what and is due when.

`choose_indexing` takes the indexing of a view after the lessons of Golab, Prahladka & Özsu (section 5.8): what matters
is how large the results are and how often they are read between two updates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muntin.archive.definition import Definition
from muntin.errors import ArchiveError, nearest

# Variants: how an index deals results out to parts, and how it lays out a part on disk.
#
# Each is a choice of three things: a rule for the slots in which results are generated, one for those in
# which they expire, and a layout. All answer alike; they differ in what an update and a probe cost.


@dataclass(frozen=True)
class Layout:
    """How the rows of a part lie on disk."""

    is_sorted: bool  # by key, then by expiry; if not, a probe reads everything
    most_runs: int  # a part is at most that many segments: 1 is clustered, more let updates append


CLUSTERED = Layout(is_sorted=True, most_runs=1)
APPENDED = Layout(is_sorted=True, most_runs=4)
UNSORTED = Layout(is_sorted=False, most_runs=4)


@dataclass(frozen=True)
class Variant:
    """One way to index results; its name in the paper beside it in `title`."""

    name: str
    title: str
    generation: str  # rules of slots
    expiry: str
    layout: Layout
    sweeps: bool = True  # if not, the dead stay until their part is thrown away

    @property
    def is_lazy(self) -> bool:
        """Whether the oldest part waits until all in it has expired, and is thrown away."""
        return self.generation == "lazy"


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("reindex", "R-ins", "chronological", "whole", CLUSTERED),
        Variant("reindex_by_expiry", "R-exp", "whole", "chronological", CLUSTERED),
        Variant("del", "D-ins", "chronological", "whole", APPENDED),
        Variant("del_by_expiry", "D-exp", "whole", "chronological", APPENDED),
        Variant("wata", "WATA", "lazy", "whole", APPENDED, sweeps=False),
        Variant("wata_swept", "WATA, swept", "lazy", "whole", APPENDED),
        Variant("chronological", "chr, Rebuild", "chronological", "chronological", CLUSTERED),
        Variant("chronological_no_rebuild", "chr, NoRebuild", "chronological", "chronological", APPENDED),
        Variant("rebuild", "Rebuild", "round_robin", "round_robin", CLUSTERED),
        Variant("no_rebuild", "NoRebuild", "round_robin", "round_robin", APPENDED),
        Variant("lazy_rebuild", "LazyRebuild", "lazy", "round_robin", CLUSTERED),
        Variant("lazy_no_rebuild", "LazyNoRebuild", "lazy", "round_robin", APPENDED),
        Variant("count_rebuild", "CountRebuild", "round_robin", "chronological", CLUSTERED),
        Variant("count_no_rebuild", "CountNoRebuild", "round_robin", "chronological", APPENDED),
        Variant("random_rebuild", "RND, Rebuild", "random", "random", CLUSTERED),
        Variant("random_no_rebuild", "RND, NoRebuild", "random", "random", APPENDED),
        Variant("none", "no index", "round_robin", "round_robin", UNSORTED),
    )
}


# Slots: time cut at the instants of updates, and the rules that deal slots out to a few classes.
#
# The slot of an instant `t` is `(t - 1) // every`, so that what an update at the end of slot `u` removes
# has expired in slot `u` at the latest. A rule gives each slot a class; nothing has to be renamed when time
# goes on, and the number of classes need not divide the number of slots in a window (Golab, Prahladka &
# Özsu, sections 3.1 to 3.3).

Ints = NDArray[np.int64]
_GOLDEN = 0x9E3779B97F4A7C15


def slot_of(instant: int | Ints, every: int) -> Ints:
    """The slot an instant lies in.

    >>> [int(slot_of(t, 2)) for t in (1, 2, 3, 17, 18)]
    [0, 0, 1, 8, 8]
    """
    return (np.asarray(instant, np.int64) - 1) // every


def whole(slot: Ints, parts: int, per_window: int) -> Ints:
    """One class for all slots."""
    return np.zeros_like(slot)


def round_robin(slot: Ints, parts: int, per_window: int) -> Ints:
    """Classes in turns: two neighbouring slots never meet in one, so classes stay of one size."""
    return slot % parts


def chronological(slot: Ints, parts: int, per_window: int) -> Ints:
    """Stretches of neighbouring slots, as many as there are classes in a window."""
    return (slot * parts // per_window) % parts


def lazy(slot: Ints, parts: int, per_window: int) -> Ints:
    """Stretches such that always one class holds the oldest slots and can be thrown away whole."""
    return stretch_of(slot, parts, per_window) % parts


def random(slot: Ints, parts: int, per_window: int) -> Ints:
    """A class drawn for each slot: no alternation of rates can fill one class and starve another.

    Drawn by hashing the slot, so there is nothing to remember.
    """
    with np.errstate(over="ignore"):
        mixed = (slot.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(parts)).astype(np.int64)


RULES: dict[str, Callable[[Ints, int, int], Ints]] = {
    rule.__name__: rule for rule in (whole, round_robin, chronological, lazy, random)
}


def stretch_sizes(parts: int, per_window: int) -> list[int]:
    """Slots in each class of a lazy rule, oldest first, when the newest has just begun.

    >>> stretch_sizes(4, 8), stretch_sizes(5, 36)
    ([3, 2, 2, 1], [9, 9, 9, 8, 1])
    """
    small, longer = divmod(per_window - 1, parts - 1)
    return [small + 1] * longer + [small] * (parts - 1 - longer) + [1]


def stretch_of(slot: Ints, parts: int, per_window: int) -> Ints:
    """The number of the stretch a slot belongs to under a lazy rule.

    All but the newest stretch of `stretch_sizes` fill `per_window - 1` slots; then the sizes repeat.

    >>> stretch_of(np.arange(18), 4, 8).tolist()
    [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 6, 7]
    """
    ends = np.cumsum(stretch_sizes(parts, per_window)[:-1])
    turn, rest = np.divmod(slot, per_window - 1)
    return turn * (parts - 1) + np.searchsorted(ends, rest, "right")


Number = int  # of a part: class of its generation times number of expiry classes plus class of its expiry


@dataclass(frozen=True)
class Indexing:
    """How results are dealt out to `generations` x `expiries` parts.

    >>> Indexing.parse("rebuild 4x4").label, Indexing.parse("reindex 16").label
    ('rebuild 4x4', 'reindex 16')
    """

    variant: Variant
    generations: int  # classes of generation
    expiries: int

    @classmethod
    def parse(cls, text: str) -> Indexing:
        """From `variant GxE`, or `variant n` where only one of the two times is split."""
        match = re.fullmatch(r"\s*([a-z_]+?)\s*(?:(\d+)(?:\s*x\s*(\d+))?)?\s*", text)
        if match is None or match[1] not in VARIANTS:
            name = match[1] if match else text
            raise ArchiveError(f"there is no index variant '{name}'{nearest(name, VARIANTS)}")
        variant = VARIANTS[match[1]]
        if match[3] is not None:
            return cls(variant, int(match[2]), int(match[3]))
        many = int(match[2] or 4)
        if variant.expiry == "whole":
            return cls(variant, many, 1)
        if variant.generation == "whole":
            return cls(variant, 1, many)
        return cls(variant, many, many) if match[2] is None else _refuse_flat(variant, many)

    @property
    def label(self) -> str:
        """As `parse` reads it."""
        if "whole" in (self.variant.generation, self.variant.expiry):
            return f"{self.variant.name} {self.parts}"
        return f"{self.variant.name} {self.generations}x{self.expiries}"

    @property
    def parts(self) -> int:
        """The number of parts."""
        return self.generations * self.expiries

    def check(self, definition: Definition) -> None:
        """Raise an error that says why these results cannot be indexed like that."""
        variant, per_window = self.variant, definition.per_window
        for what, rule, parts in (("generation", variant.generation, self.generations),
                                  ("expiry", variant.expiry, self.expiries)):  # fmt: skip
            if parts < 1 or (rule == "whole" and parts != 1):
                raise ArchiveError(f"{self.label}: {variant.name} has 1 class of {what}, not {parts}")
            if parts > per_window:
                raise ArchiveError(
                    f"{self.label}: {parts} classes of {what} are more than the {per_window} updates in a window"
                )
        if not variant.is_lazy:
            return
        if definition.by_count:
            raise ArchiveError(
                f"{self.label}: a lazy index throws a part away when its time has come, but results of count "
                "windows do not expire by time; use count_rebuild or count_no_rebuild"
            )
        if self.generations < 2:
            raise ArchiveError(f"{self.label}: a lazy index needs a part to fill while the oldest one waits")
        if self.generations == 2 and self.expiries > 1:
            raise ArchiveError(
                f"{self.label}: with 2 classes of generation a lazy index keeps up to 94 % more than is alive "
                "(one class spans all but one update of the window); use 3 or more"
            )

    def generation_class(self, slot: int | Ints, definition: Definition) -> Ints:
        """Class of the slots in which results are generated."""
        slots = np.asarray(slot, np.int64)
        return RULES[self.variant.generation](slots, self.generations, definition.per_window)

    def expiry_class(self, slot: int | Ints, definition: Definition) -> Ints:
        """Class of the slots in which results expire."""
        slots = np.asarray(slot, np.int64)
        return RULES[self.variant.expiry](slots, self.expiries, definition.per_window)

    def number_of(self, generated: Ints, expires: Ints, definition: Definition) -> Ints:
        """The part each result belongs to."""
        generation = self.generation_class(slot_of(generated, definition.every), definition)
        expiry = self.expiry_class(slot_of(expires, definition.every), definition)
        return generation * self.expiries + expiry

    def due(self, before: int, now: int, definition: Definition, reach: int = 0) -> set[Number]:
        """Parts in which an update at `now` looks for what has expired since the update at `before`.

        All parts of the expiry classes of these slots, and of `reach` slots around them; a lazy index
        leaves out its oldest class of generation, and takes all of a class that begins again.
        """
        if not self.variant.sweeps:
            return self._begun(before, now, definition)
        first, last = int(slot_of(before + 1, definition.every)), int(slot_of(now, definition.every))
        # What is stored expires within a window of `before`: later slots would only name the same parts.
        slots = np.arange(first - reach, min(last, first + definition.per_window) + reach + 1)
        expiries = {int(each) for each in self.expiry_class(slots, definition)}
        waiting = set()
        if self.variant.is_lazy:
            waiting = {int(self.generation_class(last - definition.per_window, definition))}
        swept = (each for each in range(self.generations) if each not in waiting)
        due = {generation * self.expiries + expiry for generation in swept for expiry in expiries}
        return due | self._begun(before, now, definition)

    def _begun(self, before: int, now: int, definition: Definition) -> set[Number]:
        """All parts of the lazy classes that have begun again since the last update."""
        if not self.variant.is_lazy:
            return set()
        last = slot_of(np.array([before, now]), definition.every)
        old, new = stretch_of(last, self.generations, definition.per_window)
        begun = {
            int(each) % self.generations for each in range(max(old, new - self.generations) + 1, new + 1)
        }
        return {
            generation * self.expiries + expiry for generation in begun for expiry in range(self.expiries)
        }


def _refuse_flat(variant: Variant, parts: int) -> Indexing:
    raise ArchiveError(
        f"{variant.name} splits both times: write {variant.name} GxE, such as "
        f"{variant.name} {max(2, round(parts**0.5))}x{max(2, round(parts**0.5))}"
    )


SMALL = 1 << 30  # bytes of results up to which a window is small: theirs had 500 MB and 5 GB
MANY = 32  # probes between two updates from which on they weigh more than the update


@dataclass(frozen=True)
class Load:
    """What a view has to carry, as expected or as observed."""

    size: int  # bytes of results that are alive
    probes: float  # between two updates
    by_count: bool = False
    updates: int = 36  # in a window


@dataclass(frozen=True)
class Choice:
    """An indexing, and why."""

    indexing: Indexing
    because: str


@dataclass(frozen=True)
class _Rule:
    is_small: bool
    has_many: bool
    chosen: str
    because: str


LESSONS = (
    _Rule(
        True,
        False,
        "no_rebuild 4x4",
        "few reads of a small view: updates decide, and 7 of 16 parts take them",
    ),
    _Rule(
        True,
        True,
        "rebuild 2x2",
        "many reads of a small view: one run a part and few parts make probes short",
    ),
    _Rule(
        False,
        False,
        "no_rebuild 3x3",
        "few reads of a large view: cheap updates, but not too many parts to probe",
    ),
    _Rule(
        False,
        True,
        "no_rebuild 2x2",
        "many reads of a large view: few parts to probe, without rebuilding them",
    ),
)


def choose_indexing(load: Load) -> Choice:
    """The first rule that applies; windows by count take its counterpart for guessed expiry.

    >>> choose_indexing(Load(size=500_000_000, probes=1)).indexing.label
    'no_rebuild 4x4'
    >>> choose_indexing(Load(size=5_000_000_000, probes=100, by_count=True)).indexing.label
    'count_no_rebuild 2x2'
    """
    is_small, has_many = load.size <= SMALL, load.probes >= MANY
    rule = next(rule for rule in LESSONS if (rule.is_small, rule.has_many) == (is_small, has_many))
    if load.updates < 2:
        return Choice(Indexing.parse("reindex 1"), "a window of one update leaves nothing to split")
    name, _, shape = rule.chosen.partition(" ")
    side = min(int(shape[0]), load.updates)
    because = rule.because
    if load.by_count:
        name, because = f"count_{name}", f"{because}; expiry by count is a guess, kept in stretches of time"
    return Choice(Indexing.parse(f"{name} {side}x{side}"), because)
