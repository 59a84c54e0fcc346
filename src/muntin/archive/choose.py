"""Choosing: the indexing of a view, after the lessons of Golab, Prahladka & Özsu (section 5.8).

What matters is how large the results are and how often they are read between two updates.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.archive.indexing import Indexing

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


RULES = (
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
    rule = next(rule for rule in RULES if (rule.is_small, rule.has_many) == (is_small, has_many))
    if load.updates < 2:
        return Choice(Indexing.parse("reindex 1"), "a window of one update leaves nothing to split")
    name, _, shape = rule.chosen.partition(" ")
    side = min(int(shape[0]), load.updates)
    because = rule.because
    if load.by_count:
        name, because = f"count_{name}", f"{because}; expiry by count is a guess, kept in stretches of time"
    return Choice(Indexing.parse(f"{name} {side}x{side}"), because)
