"""collective_index: CI-COUNT and CI-SUM, find the keys whose count or sum is in a range without visiting all.

| | |
|---|---|
| Full name | CI-COUNT and CI-SUM, collective index over the ASW operators of all keys |
| Answers | which keys have COUNT, or SUM of non-negative integers, in a range, over time windows that end now |
| Insert | tree: O(p log K) amortised, O(p log K log a) for an amount of a; dense: the same without log K |
| Lookup | tree: O(log K + keys reported), and the sorting of these; dense: O(K), one comparison each |
| Space | O(p K log N), for totals up to N within the longest window: 8 bytes a level and key, the tree twice that |
| Shares | one index for all windows and all thresholds |
| Reference | Arasu & Widom, VLDB 2004, section 4 and Figure 7 |

Per key and *level* (below) one stamp is kept: that of the event whose number is a multiple of the level's size.
An arrival moves marks up one level, every level of size `2**g` each `2**g`-th time:

    event number   1  2  3  4  5  6  7  8  9 10 11 12
    stamp          1  2  2  5  6  6  6  9 10 12 12 13
    level, p = 1   -------3--------  ----2----- --1-- 0       stamps kept: 13, 12, 9 and none on level 3

    more than 5 since 10?   level 1 ends at distance 3, which is 6 or less: its stamp, 12, is in the window: maybe

* No key that qualifies is missed. A key that is reported may miss the threshold by the factors below;
  its exact total decides (`is_exact`: nothing is left to decide), or the answer is taken as approximate.
* SUM is the count of a stream in which a value of a stands for a events of the same time.
* The dense form scans a level's row, the tree form walks a `StampTree`. They report the same keys.
* A key whose newest stamp is older than every window is forgotten and its events numbered from 1 again.

Departures from the printed Figure 7: the window leaves out the instant at its beginning; "more than v" is
decided by event v + 1, not v; with p > 1 all levels of a group move; a level need not hold a stamp although it
has events. The levels asked are the tightest that are sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np

from muntin.arrays import Ints
from muntin.kernels.collective_index import MOST, add_events, bound_totals, first_refused, scan_level
from muntin.kernels.stamp_tree import END, LIVE, NONE, STEPS, VISITS
from muntin.key_index.stamp_tree import StampTree, Tree

# levels: how a collective index cuts the past of a key into stretches that double, `parts` of each size.
#
# The *distance* of an event is 1 for the newest event of its key, 2 for the one before it, and so on. Level
# j = g * parts + q covers the `2**g` distances from `start(j)` to `end(j)`; here with two parts:
#
# level      0   1   2     3     4         5           6 ...
# distance   1   2   3..4  5..6  7..10     11..14      15..22
#
# A key has more than v events in a window if its event at distance v + 1 lies in it. One stamp per level is
# kept, so look-ups ask for an event that is surely not further away, or surely not nearer. That makes them
# wrong by a factor, never in the other direction:
#
#     condition     level asked                           a key that is reported has
#     more than v   the last that ends at v + 1 or before   more than v * (1 - eps_gt)
#     less than v   the first that starts at v or after     less than v * (1 + eps_lt)
#
# Reference: Arasu & Widom, VLDB 2004, sections 4.1.1 and 4.1.2, which promise one eps of "roughly 2/p" for
# both kinds. With one part eps_lt is 3 and with two it is 1: below 1 only from three parts on. For "more
# than v" the paper asks level floor(log2 v) - 1, undefined for v = 0 and at times one level nearer than
# necessary.


@dataclass(frozen=True)
class Levels:
    """The arithmetic of levels; every method O(1), for integers of any size.

    >>> levels = Levels(2)
    >>> [(levels.start(j), levels.end(j)) for j in range(6)]
    [(1, 1), (2, 2), (3, 4), (5, 6), (7, 10), (11, 14)]
    >>> levels.level_above(9), levels.level_below(9)
    (4, 5)
    """

    parts: int  # the paper's p: levels of each size

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"a collective index has 1 part or more, not {self.parts}")

    def start(self, level: int) -> int:
        """The least distance of a level."""
        group, part = divmod(level, self.parts)
        return self.parts * ((1 << group) - 1) + (part << group) + 1

    def end(self, level: int) -> int:
        """The greatest distance of a level, itself included."""
        return self.start(level + 1) - 1

    def level_of(self, distance: int) -> int:
        """The level that covers a distance, from 1 on."""
        group = ((distance - 1) // self.parts + 1).bit_length() - 1
        return self.parts * group + ((distance - 1 - self.parts * ((1 << group) - 1)) >> group)

    def level_above(self, v: int, strict: bool = True) -> int:
        """The level to ask for keys with more than `v` events, or with at least `v` if not `strict`.

        The last that ends no later than the event that decides; level 0, any event at all, if none does.
        """
        distance = max(v + 1 if strict else v, 1)
        level = self.level_of(distance)
        return level if self.end(level) == distance else level - 1

    def level_below(self, v: int, strict: bool = True) -> int:
        """The level to ask for keys with less than `v` events, or with at most `v` if not `strict`.

        The first that starts no earlier than the event that must be missing.
        """
        distance = max(v if strict else v + 1, 1)
        level = self.level_of(distance)
        return level if self.start(level) == distance else level + 1

    @property
    def eps_gt(self) -> Fraction:
        """Keys reported for "more than v" have more than v * (1 - eps_gt).

        >>> [str(Levels(p).eps_gt) for p in (1, 2, 3, 4, 8, 16)]
        ['3/4', '1/2', '2/5', '1/3', '1/5', '1/9']
        """
        return max(Fraction(2, self.parts + 2), Fraction(3, 2 * self.parts + 2))

    @property
    def eps_lt(self) -> Fraction:
        """Keys reported for "less than v" have less than v * (1 + eps_lt).

        >>> [str(Levels(p).eps_lt) for p in (1, 2, 3, 4, 8)]
        ['3', '1', '2/3', '1/2', '1/4']
        """
        return max(Fraction(2, self.parts), Fraction(3, 2 * self.parts - 1))


def parts_for(eps: float | Fraction, both: bool = True) -> int:
    """The fewest parts whose error is at most `eps`: for "more than" alone, or for `both` kinds.

    >>> parts_for(0.25), parts_for(0.25, both=False), parts_for(0.75, both=False), parts_for(Fraction(3))
    (8, 6, 1, 1)
    """
    if not eps > 0:
        raise ValueError(f"an error of {eps} needs no index but exact counts; ask for one above 0")
    eps = eps if isinstance(eps, Fraction) else Fraction(str(eps))
    if both:
        return 1 if eps >= 3 else max(2, ceil(2 / eps))
    return 1 if eps >= Fraction(3, 4) else max(2, ceil(2 / eps) - 2)


SMALLEST = 64  # keys there is room for at first


class CollectiveIndex:
    """Which keys have a total in a range since an instant.

    >>> index = CollectiveIndex("count", parts=2)
    >>> index.add(np.array([0, 1, 0, 0, 1, 2]), np.array([10, 11, 12, 13, 14, 15]))
    >>> index.candidates(since=11, low=2, high=None)
    array([0, 1])
    >>> index.candidates(since=11, low=None, high=1)
    array([2])
    >>> index.bounds(np.array([0]), since=10)  # it has 3
    (array([2]), array([3]))
    """

    name = "collective_index"

    def __init__(
        self,
        kind: Literal["count", "sum"] = "count",
        parts: int = 8,
        form: Literal["tree", "dense"] = "tree",
    ):
        """With `parts` levels of each size (the paper's p), which settle the error and the cost of an event."""
        if kind not in ("count", "sum") or form not in ("tree", "dense"):
            raise ValueError(
                f"a collective index is of 'count' or 'sum', 'tree' or 'dense', not {kind!r}, {form!r}"
            )
        self.kind, self.form = kind, form
        self.levels = Levels(parts)
        self.before = NONE + 1  # stamps before it are as good as none
        self.keys = 0  # ids seen so far, those forgotten included
        self._counts = np.zeros(2, np.int64)  # levels missing, and marks changed so far
        # [level, key] stamps, or the slots that hold them; [key] total, since the key was last forgotten
        self._marks, self._total = self._empty(parts, 0)
        self._tree = StampTree(*self._marks.shape) if form == "tree" else None

    def __len__(self) -> int:
        """Keys not forgotten; O(1) for the tree, O(K) for the dense form."""
        if self._tree is not None:
            self._tree.follow(self._marks)
            return int(self._tree.arrays.state[LIVE])
        return int(np.count_nonzero(self._marks[0, : self.keys] >= self.before))

    def add(self, key: Ints, at: Ints, amount: Ints | None = None) -> None:
        """Add events in the order of their stamps: 2p levels change for each, amortised, 2p log2(a) for an amount of a.

        A batch out of order is sorted. An event older than the newest of its key is refused with the whole
        batch. Amounts are 1 if not given; an event of amount 0, or older than what was forgotten, is nothing.
        """
        key, at = (np.require(array, np.int64, ["C", "W"]) for array in (key, at))
        if amount is not None:
            amount = np.require(amount, np.int64, ["C", "W"])
        elif self.kind == "sum":
            raise ValueError("a sum needs the amounts of its events")
        if len(at) > 1 and (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            key, at = key[order], at[order]
            amount = amount if amount is None else amount[order]
        self._refuse_wrong(key, at, amount)
        if len(key):
            self._make_room(int(key.max()) + 1)
        begin, counts = 0, self._counts
        while begin < len(key):
            begin = add_events(
                self._marks, self._total, self._arrays(), self.levels.parts, key, at, amount, begin, self.before, counts
            )  # fmt: skip
            if counts[0]:
                self._resize(int(counts[0]), self._marks.shape[1])
            elif begin < len(key):
                self._renew()

    def candidates(self, since: int, low: int | None = None, high: int | None = None) -> Ints:
        """Ids, ascending, of all keys with `low <= total <= high` since an instant, and of some others.

        None, or a `low` below 1, is no bound; keys without any event since then are never among them. The
        total of each lies within `low * (1 - eps_gt)` and `high * (1 + eps_lt)`, nearly: `Levels` has the exact words.
        """
        since = self._known(since)
        near = 0 if low is None else self.levels.level_above(low, strict=False)
        far = -1 if high is None else self.levels.level_below(high, strict=False)
        is_empty = high is not None and high < max(low or 1, 1)
        if is_empty or near >= len(self._marks):  # a level that does not exist holds no stamp
            return np.empty(0, np.int64)
        far = far if far < len(self._marks) else -1
        if self._tree is not None:
            return np.sort(self._tree.keys_between(self._marks, near, far, since))
        out = np.empty(self.keys + 1, np.int64)
        rows = self._marks[near], self._marks[far] if far >= 0 else None
        return out[: scan_level(*rows, self.keys, since, out)]

    def is_exact(self, low: int | None = None, high: int | None = None) -> bool:
        """Whether candidates need no verification: bounds so small that each number has a level of its own."""
        return (low is None or low <= self.levels.parts) and (high is None or high < self.levels.parts)

    def bounds(self, key: Ints, since: int) -> tuple[Ints, Ints]:
        """The least and the greatest total that each of these keys may have since an instant; O(log levels) each.

        The greatest is less than 1 + eps_lt times the least. Both are 0 for a key that is not known.
        """
        since = self._known(since)
        edge = since if self._tree is None else self._tree.edge(since)
        key = np.require(key, np.int64, ["C", "W"])
        low, high = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
        bound_totals(
            self._marks, self._total, self._arrays(), self.levels.parts, key, self.keys, edge, since, low, high
        )  # fmt: skip
        return low, high

    def lower_bound(self, key: Ints, since: int) -> Ints:
        """The total that each of these keys has at least."""
        return self.bounds(key, since)[0]

    def upper_bound(self, key: Ints, since: int) -> Ints:
        """The total that each of these keys has at most."""
        return self.bounds(key, since)[1]

    def forget(self, before: int) -> None:
        """Nobody will ask for what happened before an instant any more.

        Tree: O(levels) for each key that goes, O(log K) otherwise. Dense: O(1); a key is cleared when it returns.
        """
        self.before = max(self.before, before)
        if self._tree is not None:
            self._tree.forget(self._marks, self._total, self.before)

    def renumber(self, new_id: Ints) -> None:
        """Keys get other ids, in the same order: `new_id[old]`, -1 for a key that is dropped; O(levels * K)."""
        kept = np.flatnonzero(new_id[: self.keys] >= 0)
        ids = new_id[kept]
        if len(ids) > 1 and (ids[1:] <= ids[:-1]).any():
            raise ValueError("keys can be renumbered only in the order they have")
        keys = int(ids[-1]) + 1 if len(ids) else 0
        old, old_total = self._marks, self._total
        self._marks, self._total = self._empty(len(old), keys)
        self._marks[:, ids] = old[:, kept]
        self._total[ids] = old_total[kept]
        self.keys = keys
        if self._tree is not None:
            tree = self._tree.arrays
            tree.key[: tree.state[END]] = new_id[tree.key[: tree.state[END]]]
            self._renew()

    @property
    def changes(self) -> int:
        """Stamps of levels that have changed so far."""
        return int(self._counts[1])

    @property
    def steps(self) -> int:
        """What the tree did to follow: moves from bucket to bucket, and words of its bits that had to change."""
        return 0 if self._tree is None else int(self._tree.arrays.state[STEPS])

    @property
    def visits(self) -> int:
        """What look-ups and `forget` have read of the tree so far: buckets and keys."""
        return 0 if self._tree is None else int(self._tree.arrays.state[VISITS])

    def stamps(self) -> Ints:
        """The stamp of each level and key, `[level, key]`; LONG_AGO for none. A copy."""
        marks = self._marks[:, : self.keys]
        stamps = (
            marks
            if self._tree is None
            else np.where(marks == NONE, NONE, self._tree.arrays.at[np.maximum(marks, 0)])
        )
        return np.where(stamps < self.before, NONE, stamps)

    def nbytes(self) -> int:
        """Bytes of state."""
        own = self._marks.nbytes + self._total.nbytes
        return own + (self._tree.nbytes() if self._tree is not None else 0)

    def check(self) -> None:
        """Assert every invariant."""
        # a row of levels for each size, whole
        assert len(self._marks) % self.levels.parts == 0
        # ids beyond those seen have no state
        assert (self._marks[:, self.keys :] == NONE).all()
        assert not self._total[self.keys :].any()
        # stamps do not grow from level to level, and none follows where there is none
        stamps = self.stamps()
        assert (stamps[1:] <= stamps[:-1]).all()
        # a key has a stamp if it has been counted, and totals stay in range
        is_known = self._marks[0, : self.keys] != NONE
        np.testing.assert_array_equal(self._total[: self.keys] > 0, is_known)
        assert (self._total <= MOST).all()
        if self._tree is not None:
            self._tree.check(self._marks, self.keys)

    def _arrays(self) -> Tree | None:
        return None if self._tree is None else self._tree.arrays

    def _known(self, since: int) -> int:
        if since < self.before and self.before > NONE + 1:
            raise ValueError(f"stamps since {since} are asked for, those before {self.before} are forgotten")
        return max(since, self.before)

    def _refuse_wrong(self, key: Ints, at: Ints, amount: Ints | None) -> None:
        wrong = first_refused(self._marks, self._arrays(), key, at, amount, self.before)
        if wrong < 0:
            return
        if key[wrong] < 0:
            raise ValueError(f"keys are numbered from 0, not from {key[wrong]}")
        if amount is not None and not 0 <= amount[wrong] <= MOST:
            raise ValueError(f"amounts are from 0 to 2**61, not {amount[wrong]}")
        newest = self.stamps()[0, key[wrong]]
        raise ValueError(f"key {key[wrong]} has an event at {at[wrong]}, after one at {newest}")

    def _make_room(self, keys: int) -> None:
        self.keys = max(self.keys, keys)
        if keys > self._marks.shape[1]:
            self._resize(len(self._marks), keys)

    def _empty(self, levels: int, keys: int) -> tuple[Ints, Ints]:
        capacity = max(SMALLEST, 1 << (keys - 1).bit_length()) if keys else SMALLEST
        total = np.zeros(capacity, np.int64)
        if self.form == "dense":
            return np.full((levels, capacity), NONE), total  # a look-up reads a level of all keys
        # an arrival changes many levels of a key; with one level the array would be of another kind for kernels
        return np.full((capacity, max(levels, 2)), NONE).T, total

    def _resize(self, levels: int, keys: int) -> None:
        """Room for more levels or keys; O(levels * K)."""
        old, old_total = self._marks, self._total
        self._marks, self._total = self._empty(levels, keys)
        self._marks[: len(old), : old.shape[1]] = old
        self._total[: len(old_total)] = old_total
        self._renew()

    def _renew(self) -> None:
        if self._tree is not None:
            self._tree.renew(self._marks, self._total, self.keys, self.levels.parts, self.before)
