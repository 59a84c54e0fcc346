"""Gaps: what a shard has been given, but its stream does not have whole.

A stream of a query's windows begins while the query runs, or has rows of windows that were not complete themselves. So
its stores hold all that came, and yet no window that reaches back there is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.arrays import LONG_AGO

if TYPE_CHECKING:
    from muntin.shard.state import State


def know_from(state: State, instant: int) -> None:
    """Something is missing before an instant, also for queries that are yet to come."""
    if instant > state.known_from:
        state.known_from = instant
        admit_gaps(state)
        state.prepared.forget_all()  # which has learnt since when windows are known


def admit_gaps(state: State) -> None:
    """Have all that is kept begin no earlier than what is known; O(stores), if there is a gap."""
    if state.known_from == LONG_AGO:
        return
    for store in state.stores.values():
        store.began_at = max(store.began_at, state.known_from)
    for synopsis in state.synopses.values():
        synopsis.know_from(state.known_from)
