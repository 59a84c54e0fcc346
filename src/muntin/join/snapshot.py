"""All joins to a description and arrays, and back. Chains are made anew from the keys of their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.arrays import Arrays
from muntin.described import COUNT, WHOLE, Absent, Each, Maybe, Misshapen, check_shape
from muntin.join.group import JoinRegistration
from muntin.join_query import JoinQuery
from muntin.store.saved import Saved

_BOTH = (WHOLE, WHOLE)
_SHAPE = {
    "registrations": Each(
        {
            "text": str,
            "emitted_to": Maybe(WHOLE),
            "began_at": Maybe(WHOLE),
            "since": (COUNT, COUNT),
            "known_from": _BOTH,
            "emitted": COUNT,
            "missed": COUNT,
            "overflows": Absent(COUNT),
        }
    ),
    "groups": [
        {
            "member": str,
            "found": COUNT,
            "spared_at": WHOLE,
            "given_up_to": WHOLE,
            "first": (COUNT, COUNT),
            "forgotten_to": _BOTH,
        }
    ],
    "logs": [{"stream": str, "first": COUNT}],
    "needed_bytes": COUNT,
}

if TYPE_CHECKING:
    from muntin.join.group import JoinGroup
    from muntin.join.operator import JoinOperator


def take(operator: JoinOperator) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `put` needs: queries and counters as plain data, the rest as named arrays."""
    registrations = {
        name: {
            "text": each.query.text,
            "emitted_to": each.emitted_to,
            "began_at": each.began_at,
            "since": each.since,
            "known_from": each.known_from,
            "emitted": each.emitted,
            "missed": each.missed,
            "overflows": each.overflows,
        }
        for name, each in operator.registrations.items()
    }
    arrays: dict[str, Any] = {}
    for number, log in enumerate(operator.logs.values()):
        arrays |= {f"log {number}/{name}": array for name, array in log.snapshot().items()}
    groups = []
    for number, group in enumerate(operator.groups.values()):
        groups.append(
            {
                "member": next(iter(group.registrations)),
                "found": group.matches.found,
                "spared_at": group.spared_at,
                "given_up_to": group.given_up_to,
                "first": [side.events.dropped for side in group.sides],
                "forgotten_to": [side.forgotten_to for side in group.sides],
            }
        )
        arrays |= {f"group {number}/{name}": array for name, array in group.matches.snapshot().items()}
        arrays |= {f"group {number}/keys {i}": values for i, values in enumerate(group.keys.snapshot())}
        arrays |= {f"group {number}/side {i}": side.events["key"] for i, side in enumerate(group.sides)}
    description = {
        "registrations": registrations,
        "groups": groups,
        "logs": [{"stream": stream, "first": log.first} for stream, log in operator.logs.items()],
        "needed_bytes": operator.needed_bytes,
    }
    return description, arrays


def put(
    operator: JoinOperator, description: dict[str, Any], arrays: Arrays, queries: dict[str, JoinQuery]
) -> None:
    """Fill an operator that has no queries yet; `queries` are those of the description, parsed again."""
    check_shape(description, _SHAPE, "the state of joins")
    operator.register(queries)
    for name, told in description["registrations"].items():
        operator.group_of[name].registrations[name] = JoinRegistration(
            queries[name], told["emitted_to"], told["began_at"], _both(told["since"]),
            _both(told["known_from"]), told["emitted"], told["missed"], told.get("overflows", 0),
        )  # fmt: skip
    saved = Saved(arrays)
    if {told["stream"] for told in description["logs"]} != operator.logs.keys():
        raise Misshapen("the state of joins has not the events of each stream")
    for number, told in enumerate(description["logs"]):
        operator.logs[told["stream"]].restore(saved.under(f"log {number}/"), told["first"])
    groups = [operator.group_of[told["member"]] for told in description["groups"]]
    if {id(group) for group in groups} != {id(group) for group in operator.groups.values()}:
        raise Misshapen("the state of joins has not the matches of each pair of streams")
    for number, (group, told) in enumerate(zip(groups, description["groups"], strict=True)):
        _put_group(group, told, saved.under(f"group {number}/"))
    operator.needed_bytes = description["needed_bytes"]


def _put_group(group: JoinGroup, told: dict[str, Any], saved: Saved) -> None:
    group.matches.restore(saved, told["found"])
    if not group.matches.keep_events([side.log for side in group.sides]):
        raise saved.damaged("left_at", "and 'right_at' are not the times of the events")
    group.spared_at, group.given_up_to = told["spared_at"], told["given_up_to"]
    group.note_emitted()
    group.keys.restore(saved.under("keys "))
    keyed = saved.with_keys({group: len(group.keys)})
    for i, side in enumerate(group.sides):
        key, first = keyed.ids(f"side {i}", group), told["first"][i]
        if first < side.log.first or first + len(key) != side.log.end:
            raise saved.damaged(f"side {i}", "has other events than its stream")
        side.replace(key, first)
        side.forgotten_to = told["forgotten_to"][i]


def _both(saved: list[int]) -> tuple[int, int]:
    left, right = saved
    return left, right
