"""All joins to a description and arrays, and back. Chains are made anew from the keys of their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.join.registration import JoinRegistration
from muntin.join_query import JoinQuery
from muntin.synopsis.contract import Arrays

if TYPE_CHECKING:
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
    operator.register(queries)
    for name, saved in description["registrations"].items():
        operator.group_of[name].registrations[name] = JoinRegistration(
            queries[name], saved["emitted_to"], saved["began_at"], _both(saved["since"]),
            _both(saved["known_from"]), saved["emitted"], saved["missed"],
        )  # fmt: skip
    for number, saved in enumerate(description["logs"]):
        operator.logs[saved["stream"]].restore(_under(arrays, f"log {number}"), saved["first"])
    for number, saved in enumerate(description["groups"]):
        found, group = _under(arrays, f"group {number}"), operator.group_of[saved["member"]]
        group.matches.restore(found, saved["found"])
        group.spared_at, group.given_up_to = saved["spared_at"], saved["given_up_to"]
        group.note_emitted()
        parts = [name for name in found if name.startswith("keys ")]
        group.keys.restore([found[f"keys {i}"] for i in range(len(parts))])
        for i, side in enumerate(group.sides):
            key, first = found[f"side {i}"], saved["first"][i]
            side.events.replace({"key": key, "prior": side.chains.rebuild(key, first)})
            side.events.dropped = first
            side.forgotten_to = saved["forgotten_to"][i]
    operator.needed_bytes = description["needed_bytes"]


def _both(saved: list[int]) -> tuple[int, int]:
    left, right = saved
    return left, right


def _under(arrays: Arrays, prefix: str) -> dict[str, Any]:
    return {name[len(prefix) + 1 :]: array for name, array in arrays.items() if name.startswith(prefix + "/")}
