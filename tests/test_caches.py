"""No cache of a process grows for ever: what is remembered of queries that came and went has a bound or an owner."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
import weakref
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from pathlib import Path
from typing import Any

import pytest

import muntin
from muntin.engine.catalog import bulk
from muntin.sql import parse, template

ROUNDS = 40  # of three queries each
CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
# caches that may grow, each with the constant that bounds it
BOUNDED = {
    "muntin.plan.choices._BY_TRAITS": "muntin.plan.choices._MOST_TRAITS",
    "muntin.spark.pack._MAKERS": "muntin.spark.pack._MOST_MAKERS",
    "muntin.spark.processor.CACHE._copies": "muntin.spark.processor._MOST",
    "muntin.spark.shard._PARSED": "muntin.spark.processor._MOST",  # gone with the shards that own them
}


def in_module(module: Any) -> Iterator[tuple[str, Any]]:
    """What outlives all engines: names of the module and of its classes, and what single objects there hold."""
    for name, value in vars(module).items():
        where = f"{module.__name__}.{name}"
        if callable(value) and getattr(value, "__module__", "") != module.__name__:
            continue  # imported
        yield where, value
        is_object = type(value).__module__.startswith("muntin.") and hasattr(value, "__dict__")
        if isinstance(value, type) or is_object:
            yield from ((f"{where}.{each}", held) for each, held in vars(value).items())


def caches() -> dict[str, Any]:
    """Everything that can grow: containers, and functions that remember their results."""
    found = {}
    for info in pkgutil.walk_packages(muntin.__path__, "muntin."):
        if info.name.endswith("__main__"):
            continue
        for name, value in in_module(importlib.import_module(info.name)):
            if not name.rpartition(".")[2].startswith("__") and _is_cache(value):
                found[name] = value
    listed = {
        id(found[name]) for name in BOUNDED if name in found
    }  # by modules that import them, they are the same
    return {name: cache for name, cache in found.items() if name in BOUNDED or id(cache) not in listed}


def _is_cache(value: Any) -> bool:
    return hasattr(value, "cache_info") or (isinstance(value, CONTAINERS) and not isinstance(value, type))


def size_of(cache: Any) -> int:
    return int(cache.cache_info().currsize) if hasattr(cache, "cache_info") else len(cache)


def texts(i: int) -> dict[str, str]:
    """Queries of all kinds whose windows, numbers, strings, names and shapes nobody else has."""
    terms = " + ".join(["v"] * (i % 13 + 1))
    window = f"[RANGE {i + 10} SECONDS SLIDE {1 + i % 7} SECONDS]"
    return {
        f"keyed {i}": f"SELECT k, SUM({terms} + {i}) FILTER (WHERE x > {i}) AS a{i} FROM s {window} "
        f"WHERE k <> 'a{i}' GROUP BY k HAVING SUM({terms} + {i}) > {i}",
        f"plain {i}": f"SELECT MAX({terms}) AS a{i}, COUNT(*) FILTER (WHERE x > {i}) AS b FROM s [ROWS {i + 1}]",
        f"sketch {i}": f"SELECT APPROX_QUANTILE(v, 0.{i + 1}, 0.1) AS a{i} FROM s {window}",
    }


def come_and_go(rounds: range) -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts")
    for i in rounds:
        queries = texts(i)
        engine.execute("; ".join(f'REGISTER QUERY "{name}" AS {text}' for name, text in queries.items()))
        engine.push("s", {"ts": [i * 1_000_000], "k": [f"key {i}"], "v": [i], "x": [2.0]})
        engine.advance()
        for name in queries:
            engine.lookup(name)
            engine.execute(f'DROP QUERY "{name}"')


def come_and_go_on_spark(rounds: range) -> None:
    pytest.importorskip("pyspark")
    sys.path.insert(0, str(Path(__file__).parent / "spark"))
    from shards import Shards
    from test_shards import STREAM, _steady

    own = {"own": "SELECT COUNT(*) AS n FROM s [ROWS 3 SLIDE 3]"}
    shards = Shards(STREAM, own, keys=["k", ""], shards=2, is_controlled=True)
    for i in rounds:
        if i % 10 == 0:
            shards.send([_steady(i, i + 1).to_batches()])
        told = [f'REGISTER QUERY "{name}" AS {text}' for name, text in texts(i).items()]
        shards.tell(*told, *(f'DROP QUERY "{name}"' for name in texts(i)))
        assert not shards.refused
    for i in rounds:  # each is a job of its own, as after a restart with another text
        window = f"[RANGE {i + 1} SECONDS SLIDE 1 SECOND]"
        spread = Shards(
            STREAM,
            {"own": f"SELECT APPROX_QUANTILE(v, 0.5, 0.1) AS q FROM s {window}"},
            spread=True,
            shards=2,
        )
        spread.send([_steady(0, 10).to_batches()])


def test_no_cache_grows_with_queries_that_come_and_go() -> None:
    known = caches()
    assert {"muntin.plan.choices._BY_TRAITS", "muntin.spark.shard._PARSED"} <= known.keys()
    come_and_go(range(30))
    come_and_go_on_spark(range(10))
    before = {name: size_of(cache) for name, cache in known.items()}
    come_and_go(range(30, 30 + ROUNDS))
    come_and_go_on_spark(range(10, 40))
    grown = {name: size_of(cache) for name, cache in known.items() if size_of(cache) > before[name] + 10}
    for name, size in grown.items():
        if hasattr(known[name], "cache_info"):
            assert known[name].cache_info().maxsize is not None, f"{name} remembers all results, for ever"
            continue
        assert name in BOUNDED, (
            f"{name} has grown from {before[name]} to {size}: give it a bound, and name it here"
        )
        module, _, bound = BOUNDED[name].rpartition(".")
        assert size <= getattr(importlib.import_module(module), bound)


def test_templates_go_with_the_last_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of texts is bounded and shared by the engines that are there; nothing of it outlives them."""
    monkeypatch.setattr(parse, "_SHARED", weakref.WeakSet())  # engines of other tests may be there still
    engines = [muntin.Engine(), muntin.Engine()]
    for engine in engines:
        engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts")
        for i in range(5):
            engine.register_many(texts(i))
    templates = engines[0]._catalog.templates
    assert templates is engines[1]._catalog.templates
    assert 0 < len(templates._by_fit) <= template._MOST
    left = weakref.ref(templates)
    del engine, templates
    while engines:
        assert left() is not None
        engines.pop()
        gc.collect()
    assert left() is None


@pytest.mark.parametrize("is_on", [True, False])
def test_the_search_for_garbage_is_put_off_for_one_call(is_on: bool) -> None:
    """It is on again after a bulk of queries, also after one that failed; and stays off for those who want it so."""
    before = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with bulk(10**6):
            assert not gc.isenabled()
        assert gc.isenabled() == is_on
        with pytest.raises(ValueError, match="no query"), bulk(10**6):
            raise ValueError("no query")
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if before else gc.disable)()
