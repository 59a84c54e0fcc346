"""The past of tables: how long it must be known how they were, since instants are owed that saw them so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muntin.shard.state import State


def owes_with(state: State, table: str, until: int) -> bool:
    """Whether a query that joins a table may still be asked for an instant up to one."""
    first = state.clock.first
    if first is None or until < state.forgotten_to:
        return False
    for each in state.registrations.values():
        if each.joined is not None and any(table == one.name for one in each.joined.tables):
            after = each.owes_after(first)
            if each.pace.floor(until) > after:
                return True
    return False


def release_past(state: State) -> None:
    """Let go of how tables were, where no instant is owed that saw them so."""
    for name, table in state.tables.items():
        table.release(state.stream.name, partial(owes_with, state, name))
