"""By value: what is kept beside the runs of a pool for aggregates that single values decide, input by input.

Quantiles and modes have the order of values (`value_order.py`), different values know where they come again
(`repeats.py`). Both are made when they are first read, and follow the pool from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Ints
from muntin.query import Input
from muntin.store.needs import Need
from muntin.store.repeats import Repeats
from muntin.store.value_order import Order, Pool, Ranks, ValueOrder


class ByValue:
    """Orders and repeats of the inputs of a pool; `pool_of` gives the entries of one, as they are now."""

    def __init__(self, pool_of: Callable[[Input], Pool]):
        self._pool_of = pool_of
        self.begin_again()

    def begin_again(self) -> None:
        """All of it is to be made anew, from what the pool then has."""
        self._orders: dict[Input, ValueOrder] = {}
        self._repeats: dict[Input, Repeats] = {}

    def fit(self, needs: Collection[Need]) -> None:
        """Keep what these needs read, if it is there."""
        wanted = {(need.input, need.component) for need in needs}
        self._orders = {
            input: order
            for input, order in self._orders.items()
            if (input, "quantile") in wanted or (input, "mode") in wanted
        }
        self._repeats = {
            input: repeats for input, repeats in self._repeats.items() if (input, "distinct") in wanted
        }

    def columns(self) -> Iterable[Array]:
        """What is moved with the entries."""
        return (repeats.ahead for repeats in self._repeats.values())

    def allocate(self, capacity: int) -> None:
        """The pool is another, and its columns are to be filled."""
        for repeats in self._repeats.values():
            repeats.allocate(capacity)

    def arrange(self, capacity: int, start: Ints, left: Ints) -> None:
        """The runs lie where they do in another pool; its columns are filled. O(entries)."""
        for order in self._orders.values():
            order.arrange(capacity, start, left)

    def append(self, key: Ints, place: Ints) -> None:
        """Entries have come; O(1) amortised each."""
        for input, repeats in self._repeats.items():
            repeats.append(self._pool_of(input), key, place)

    def unlink(self, keys: Ints, instant: int) -> None:
        """The entries of some keys after an instant are about to go; O(entries of these keys)."""
        for input, repeats in self._repeats.items():
            repeats.take_back(self._pool_of(input), keys, instant)

    def take_back(self, keys: Ints, left: Ints, count: Ints) -> None:
        """They have gone; O(entries of these keys)."""
        for order in self._orders.values():
            order.take_back(keys, left, count)

    def pick(self, input: Input, ids: Ints, lo: Ints, hi: Ints, ranks: Ranks) -> list[list[Partial]]:
        """Partials of quantiles: of each window, which has a slot for each of the ids, those of each phi."""
        pool = self._pool_of(input)
        return self._order_of(input, pool).pick(pool, ids, lo, hi, ranks)

    def pick_modes(self, input: Input, ids: Ints, lo: Ints, hi: Ints, order: Order, rank: Ints) -> Partial:
        """Partial of modes: of the rows that are named, the most frequent value of each slot."""
        pool = self._pool_of(input)
        return self._order_of(input, pool).pick_modes(pool, ids, lo, hi, order, rank)

    def _order_of(self, input: Input, pool: Pool) -> ValueOrder:
        if input not in self._orders:
            self._orders[input] = ValueOrder(len(pool.at), pool.value.dtype)
        return self._orders[input]

    def count_different(self, input: Input, ids: Ints, lo: Ints, hi: Ints, sequence: Ints) -> Ints:
        """How many different values each slot has, of the rows that are named: by their ends, the longest first."""
        pool = self._pool_of(input)
        if input not in self._repeats:
            self._repeats[input] = Repeats(pool)
        return self._repeats[input].count(pool, ids, lo, hi, sequence)

    def nbytes(self) -> int:
        made: list[ValueOrder | Repeats] = [*self._orders.values(), *self._repeats.values()]
        return sum(each.nbytes() for each in made)

    def __str__(self) -> str:
        """Which inputs it has made something for, as `explain` shows it."""
        said = [f"{input} in order" for input in self._orders]
        return "; ".join(said + [f"repeats of {input}" for input in self._repeats])

    def check(self) -> None:
        for input, order in self._orders.items():
            order.check(self._pool_of(input))
        for input, repeats in self._repeats.items():
            repeats.check(self._pool_of(input))
