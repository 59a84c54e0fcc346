"""A nesting: the window chains of one operation signature. A stream has one for each filter and set of keys.

`explain` and `stats` ask how the windows of a stream nest. Nobody else does, so a query that comes or goes changes
no chain: `Nestings` finds the fewest chains when somebody asks.

A nesting can also follow windows that come and go one by one. A new window goes into the first chain that has a
place for it; chains that move least often are tried first. A window that leaves makes its chain shorter. Neither moves
another window, so in time there are more chains than need be. After as many calls as there are windows, all windows
are put into the fewest chains again; with half as many chains too many, after half as many calls.

Patroumpas & Sellis, sections 3.2 and 3.3; what is different is said in `window_chain`, and why in
docs/decisions/0011-nesting.md.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from muntin.plan.chain_cover import chain_cover
from muntin.plan.demand import Signature
from muntin.plan.group import WindowGroup
from muntin.plan.window_chain import Spec, WindowChain
from muntin.window import Window

_DRIFT = 1.5  # times the fewest chains there could be when they were last made: more are too many
_FEWEST_CALLS = 8  # before chains are made anew: a handful of windows is as well off in any


def nests(window: Window) -> bool:
    """Whether a window can be in a chain: it ends now, follows time by multiples of a slide, and leaves no gaps."""
    return (
        window.is_time
        and not (window.to or window.offset or window.since)
        and 0 < window.slide <= window.size
    )


class Nesting:
    """Windows, each registered any number of times, in chains.

    >>> nesting = Nesting()
    >>> for spec in ((8, 4), (8, 2), (16, 4), (4, 1), (12, 6), (12, 2)):
    ...     nesting.register(*spec)
    >>> nesting.chains
    (<12, 2: 6>, <4, 1> <8, 2: 4> <16, 4>)
    >>> nesting.optimum, nesting.windows, nesting.members, nesting.piggybacked
    (1, 6, 4, 2)
    >>> nesting.host(8, 4)
    (8, 2)
    """

    def __init__(self) -> None:
        self._chains: list[WindowChain] = []  # those that move least often first
        self._registered: dict[Spec, int] = {}  # how often
        self._chain_of: dict[Spec, WindowChain] = {}
        self._calls = 0  # since the chains were made anew
        self._pool = 0  # the windows there were then
        self._fewest = 0  # and the chains
        self._optimum: int | None = 0  # None: not known since the last change

    @classmethod
    def of(cls, specs: Iterable[Spec]) -> Nesting:
        """Some windows, each registered once, in the fewest chains; as dear as `regroup`.

        >>> Nesting.of([(8, 4), (8, 2), (16, 4), (4, 1), (12, 6), (12, 2)]).chains
        (<4, 1> <8, 2: 4> <12, 2: 6> <16, 4>,)
        """
        nesting = cls()
        nesting._registered = dict.fromkeys(specs, 1)
        nesting.regroup()
        return nesting

    def register(self, size: int, slide: int) -> None:
        """Add a window, or count it once more; O(chains), with its share of making the chains anew."""
        if not 0 < slide <= size:
            raise ValueError(f"a window of size {size} and slide {slide} leaves gaps: it nests in no other")
        spec = (size, slide)
        if spec in self._registered:
            self._registered[spec] += 1
            self._called()
            return
        self._registered[spec] = 1
        self._chain_of[spec] = self._embed(size, slide)
        self._optimum = None
        self._called()

    def revoke(self, size: int, slide: int) -> None:
        """Count a window once less, and take it out with the last; as dear as `register`."""
        spec = (size, slide)
        if spec not in self._registered:
            raise ValueError(f"no window of size {size} and slide {slide} is registered")
        self._registered[spec] -= 1
        if self._registered[spec]:
            self._called()
            return
        del self._registered[spec]
        chain = self._chain_of.pop(spec)
        base = chain.slide
        chain.remove(size, slide)
        self._reorder(chain, base)
        self._optimum = None
        self._called()

    def regroup(self) -> None:
        """Put all windows into the fewest chains; O(windows * slides), as a rule."""
        self._chains = chain_cover(self._registered)
        self._chain_of = {
            spec: chain for chain in self._chains for member in chain.members for spec in member.specs()
        }
        self._calls, self._pool = 0, len(self._registered)
        self._fewest = self._optimum = len(self._chains)

    @property
    def chains(self) -> tuple[WindowChain, ...]:
        """Those that move least often first, then in the order they came to be; not to be changed."""
        return tuple(self._chains)

    def host(self, size: int, slide: int) -> Spec:
        """The window whose look-ups answer a registered one: itself, or the one it is piggybacked on."""
        return size, self._chain_of[size, slide].member(size).slide

    @property
    def registered(self) -> Mapping[Spec, int]:
        """How often each window is registered."""
        return MappingProxyType(self._registered)

    @property
    def windows(self) -> int:
        """How many different ones are registered."""
        return len(self._registered)

    @property
    def members(self) -> int:
        """How many windows have a place of their own, virtual ones included."""
        return sum(len(chain.members) for chain in self._chains)

    @property
    def piggybacked(self) -> int:
        """How many windows are answered by another."""
        return sum(len(member.piggybacked) for chain in self._chains for member in chain.members)

    @property
    def optimum(self) -> int:
        """The fewest chains there could be; as dear as `regroup` when windows have changed."""
        if self._optimum is None:
            self._optimum = len(chain_cover(self._registered))
        return self._optimum

    def _embed(self, size: int, slide: int) -> WindowChain:
        for chain in self._chains:
            base = chain.slide
            if (slide % base == 0 or base % slide == 0) and chain.embed(size, slide):
                self._reorder(chain, base)
                return chain
        chain = WindowChain.of(size, slide)
        insort(self._chains, chain, key=_seldom_first)
        return chain

    def _reorder(self, chain: WindowChain, base: int) -> None:
        """Put a chain that had the slide `base` where it belongs now."""
        if chain.slide != base:
            self._chains.remove(chain)
            if chain.members:
                insort(self._chains, chain, key=_seldom_first)

    def _called(self) -> None:
        """Make the chains anew if that is due, and not known to be of no use."""
        self._calls += 1
        due = min(self._pool, len(self._registered))
        if len(self._chains) > _DRIFT * self._fewest:
            due //= 2
        if self._calls >= max(due, _FEWEST_CALLS) and self._optimum != len(self._chains):
            self.regroup()

    def check(self) -> None:
        """Assert every invariant of the chains."""
        for chain in self._chains:
            chain.check()  # G1 to G3
        bases = [chain.slide for chain in self._chains]
        assert bases == sorted(bases, reverse=True)
        # G4: each window that is registered is in exactly one place
        placed = [
            (spec, chain) for chain in self._chains for member in chain.members for spec in member.specs()
        ]
        assert len(placed) == len(self._registered)
        assert dict(placed) == self._chain_of
        assert self._chain_of.keys() == self._registered.keys()
        assert all(count > 0 for count in self._registered.values())


def _seldom_first(chain: WindowChain) -> int:
    return -chain.slide


class Nestings:
    """How the windows of a stream nest, found when asked for. A nesting is remembered until its windows change.

    Windows that cannot be in a chain are left out, and served all the same: with `TO`, without SLIDE, with a
    SLIDE longer than their RANGE, or by ROWS.
    """

    def __init__(self) -> None:
        self._last: dict[Signature, Nesting] = {}

    def of(self, groups: Iterable[WindowGroup]) -> Mapping[Signature, Nesting]:
        """The nestings of the windows of all groups, in the order of the groups. O(windows), and to find chains
        where windows have changed since the last call."""
        windows: dict[Signature, dict[Spec, None]] = {}
        for group in groups:
            specs = [(each.size, each.slide) for each in group.needs.windows if nests(each)]
            if specs:
                windows.setdefault(group.signature, {}).update(dict.fromkeys(specs))
        self._last = {signature: self._nesting(signature, specs) for signature, specs in windows.items()}
        return MappingProxyType(self._last)

    def _nesting(self, signature: Signature, specs: dict[Spec, None]) -> Nesting:
        last = self._last.get(signature)
        return last if last is not None and last.registered.keys() == specs.keys() else Nesting.of(specs)
