"""Adaptive choice: change to another structure once staying has cost as much as the change.

The rent-or-buy argument ("ski rental"). For every structure that could serve a group, its *regret* is what
the current one has cost more since that other was last as good: it grows while the other would have been
cheaper, shrinks while it would have been dearer, and never falls below nothing. When it reaches what
going there and coming back costs, the group changes. So every change has been paid for in advance by what
it would have saved, and a load that wavers is waited out.

    cost of   b_int    none      regret of `none`, with a change that costs 10
    push         4       0       4
    push         4       0       8
    look-up      1       5       4      a look-up in between: wait
    push         4       0       8
    push         4       0       12     change, before this push is paid for

**Guarantee.** Of two structures, let D be the price of going from one to the other and back. In a stretch of the
stream where one is the better all along, the other costs at most D more before the change, and the change less than D:
a stretch costs at most 2 D more than its best structure alone. Every further candidate can add as much, by
being passed through. Changes cost no more than what was lost by not making them earlier.

No clock, no state but its own: costs come from outside, so the same steps lead to the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


class Choice:
    """
    >>> choice = Choice("b_int", ["b_int", "materialize_none"])
    >>> for push in range(3):
    ...     print(choice.foresee({"b_int": 4.0, "materialize_none": 0.0}, price=lambda name: 10.0))
    None
    None
    materialize_none
    """

    def __init__(self, current: str, candidates: Iterable[str]):
        self.current = current
        self.regrets: dict[str, float] = {name: 0.0 for name in candidates if name != current}

    def foresee(
        self, costs: Mapping[str, float], price: Callable[[str], float], least: float = 0.0
    ) -> str | None:
        """Count what the next step would cost in each structure; the one to change to before it is paid, or None.

        `price(name)` is what it costs to go there and to come back; no change costs less than `least`, below which
        nobody asks for it. O(candidates).
        """
        here, regrets = costs[self.current], self.regrets
        best, surplus = None, 0.0
        for name, regret in regrets.items():
            regret += here - costs[name]
            regrets[name] = regret if regret > 0.0 else 0.0
            if regret > least and (more := regret - price(name)) >= surplus:
                best, surplus = name, more
        return best

    def change(self, name: str) -> None:
        """`name` is in place now: begin anew."""
        self.regrets = {each: 0.0 for each in (*self.regrets, self.current) if each != name}
        self.current = name

    def keep(self, names: Iterable[str]) -> None:
        """Only these are candidates from now on."""
        self.regrets = {name: self.regrets[name] for name in names if name in self.regrets}
