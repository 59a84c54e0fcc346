"""A shard to a description and arrays, and back. Nothing executable: queries travel as their text."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.arrays import LONG_AGO
from muntin.described import COUNT, WHOLE, Absent, Each, Maybe, check_shape
from muntin.operator.clock import CLOCK
from muntin.operator.registration import History, Registration
from muntin.operator.shard import Shard
from muntin.plan import Demand, WindowGroup, demands_of
from muntin.plan.store import STREAM_RING, StoreId
from muntin.query import Query
from muntin.store.saved import Saved

_SHAPE = {
    "clock": CLOCK,
    "groups": [
        {
            "number": COUNT,
            "synopsis": str,
            "planned": Absent(str),
            "rule": Maybe(str),
            "adapted": Absent(str),
            "store": str,
            "is_stream_ring": bool,
            "grid": Maybe(COUNT),
            "generation": Absent(COUNT),
        }
    ],
    "registrations": Each(
        {
            "text": str,
            "emitted_to": Maybe(WHOLE),
            "emitted": COUNT,
            "missed": COUNT,
            "overflows": Absent(COUNT),
            "history": Absent(Maybe((WHOLE, WHOLE))),
            "groups": [COUNT],
        }
    ),
    "forgotten_to": WHOLE,
    "needed_bytes": COUNT,
}


def take(shard: Shard) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `put` needs: plan, clock and registrations as plain data, the rest as named arrays."""
    shard.settle_plan()
    registrations = {
        name: {
            "text": each.query.text,
            "emitted_to": each.emitted_to,
            "emitted": each.emitted,
            "missed": each.missed,
            "overflows": each.overflows,
            "history": each.history,
            "groups": [number for number, _ in shard.manager.placements[name].all()],
        }
        for name, each in shard.registrations.items()
    }
    groups = [
        {
            "number": group.number,
            "synopsis": group.synopsis,
            "planned": group.planned,
            "rule": group.rule,
            "adapted": group.adapted,
            "store": group.store.kind,
            "is_stream_ring": group.store._replace(generation=0) == STREAM_RING,
            "grid": group.store.grid,
            "generation": group.store.generation,
        }
        for group in shard.manager.groups.values()
    ]
    arrays: dict[str, Any] = {}
    for prefix, holder in _holders(shard):
        arrays |= {f"{prefix}/{name}": array for name, array in holder.snapshot().items()}
    arrays |= {
        f"inside {name}": each.inside
        for name, each in shard.registrations.items()
        if each.query.emits_changes
    }
    for keys, dictionary in shard.keys.items():
        arrays |= {f"keys {_text(keys)}/{i}": values for i, values in enumerate(dictionary.snapshot())}
    arrays |= {f"text {argument}": dictionary.snapshot() for argument, dictionary in shard.texts.items()}
    description = {
        "clock": shard.clock.state(),
        "groups": groups,
        "registrations": registrations,
        "forgotten_to": shard.forgotten_to,
        "needed_bytes": shard.needed_bytes,
    }
    return description, arrays


def put(shard: Shard, description: dict[str, Any], arrays: dict[str, Any], queries: dict[str, Query]) -> None:
    """Fill a shard that has no queries yet; `queries` are those of the description, parsed again."""
    check_shape(description, _SHAPE, "the state")
    registrations = description["registrations"]
    first_demand: dict[int, Demand] = {}
    for name, each in registrations.items():
        for number, demand in zip(each["groups"], demands_of(queries[name]).all(), strict=True):
            first_demand.setdefault(number, demand)
    changes = shard.manager.adopt(
        [
            _group(saved, first_demand[saved["number"]], shard.adaptation is not None)
            for saved in description["groups"]
        ],
        {name: (queries[name], each["groups"]) for name, each in registrations.items()},
    )
    shard.registrations = {
        name: Registration(
            queries[name],
            each["emitted_to"],
            each["emitted"],
            missed=each["missed"],
            history=_history(each),
            overflows=each.get("overflows", 0),
        )
        for name, each in registrations.items()
    }
    shard.note_emitted()
    shard.fit(changes)
    shard.clock.restore(description["clock"])
    shard.forgotten_to, shard.needed_bytes = description["forgotten_to"], description["needed_bytes"]
    _restore(shard, arrays)


def _restore(shard: Shard, arrays: dict[str, Any]) -> None:
    """Dictionaries first: they say which ids there are."""
    saved = Saved(arrays)
    for keys, dictionary in shard.keys.items():
        dictionary.restore(saved.under(f"keys {_text(keys)}/"))
    for argument, text in shard.texts.items():
        text.restore(saved, f"text {argument}")
    many = {keys: len(dictionary) for keys, dictionary in shard.keys.items()}
    texts = {argument: len(text) for argument, text in shard.texts.items()}
    watermark = shard.clock.watermark
    saved = Saved(arrays, many, texts, LONG_AGO if watermark is None else watermark)
    for prefix, holder in _holders(shard):
        holder.restore(saved.under(f"{prefix}/"))
    for name, each in shard.registrations.items():
        if each.query.emits_changes:
            each.inside = saved.ids(f"inside {name}", each.query.key_expressions).copy()
            if len(np.unique(each.inside)) < len(each.inside):
                raise saved.damaged(f"inside {name}", "has keys twice")


def _group(saved: dict[str, Any], member: Demand, adaptive: bool) -> WindowGroup:
    """A group as it was; where it filters and by which keys, any of its demands knows. If it may not adapt,
    it is served as its rule has it: structures are built from the stores anyway."""
    where, keys = member.where, member.keys
    store = STREAM_RING if saved["is_stream_ring"] else StoreId(saved["store"], where, keys, saved["grid"])
    store = store._replace(generation=saved.get("generation", 0))
    planned = saved.get("planned", saved["synopsis"])
    group = WindowGroup(saved["number"], planned, saved["rule"], where, keys, store)
    if adaptive:
        group.switch(saved["synopsis"], saved.get("adapted", ""))
    return group


def _holders(shard: Shard) -> list[tuple[str, Any]]:
    """Everything that can snapshot itself, under a name that a restored shard gives it too; stores
    first, since synopses are rebuilt from them."""
    stores = [
        (f"{each.kind} {each.grid}{_generation(each)} {each.where or ''} by {_text(each.keys)}", store)
        for each, store in shard.stores.items()
    ]
    return stores + [(f"group {number}", synopsis) for number, synopsis in shard.synopses.items()]


def _history(saved: dict[str, Any]) -> History | None:
    found = saved.get("history")
    return None if found is None else History(*found)


def _generation(store: StoreId) -> str:
    return f" of history {store.generation}" if store.generation else ""


def _text(keys: tuple[Any, ...]) -> str:
    return ", ".join(str(key) for key in keys)
