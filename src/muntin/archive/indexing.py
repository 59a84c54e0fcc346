"""Indexing: a variant with its shape, and the arithmetic of which part holds what and is due when."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from muntin.archive.definition import Definition
from muntin.archive.slots import RULES, Ints, slot_of, stretch_of
from muntin.archive.variant import VARIANTS, Variant
from muntin.errors import ArchiveError, nearest

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
