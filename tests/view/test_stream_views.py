"""Views of one stream and queries over views: at each instant what the oracle finds by looking at all events."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from effort import some_of
from muntin import Engine
from muntin.view_select import StandingQuery
from tests.view.naive_stream_views import EVERY, QUERIES, SECOND, STREAMS, VIEWS, Followed, Twin, statement

pytestmark = pytest.mark.usefixtures("no_flushing")


def engine_with(folder: Any, *views: str, **more: Any) -> Engine:
    engine = Engine(archive=folder, **more)
    engine.execute("; ".join([STREAMS, *map(statement, views)]))
    return engine


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Without the bounds of windows."""
    columns = [table[name].to_pylist() for name in table.column_names if name not in BOUNDS]
    return Counter(zip(*columns, strict=True))


BOUNDS = ("window_start", "window_end", "complete", "leaves_at")


def by_instant(table: pa.Table) -> dict[int, Counter[tuple[Any, ...]]]:
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for end, row in zip(ends, rows_of_each(table), strict=True):
        found.setdefault(end // SECOND, Counter())[row] += 1
    return found


def rows_of_each(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(
        zip(*(table[name].to_pylist() for name in table.column_names if name not in BOUNDS), strict=True)
    )


def restarted(engine: Engine, folder: Path, **more: Any) -> Engine:
    with tempfile.TemporaryDirectory() as place:
        engine.checkpoint(f"{place}/state")
        engine.close()
        return Engine.restore(f"{place}/state", archive=folder, **more)


@pytest.mark.parametrize("seed", range(some_of(10, 40)))
def test_views_and_queries_over_them_are_what_the_oracle_finds(tmp_path: Path, seed: int) -> None:
    """However time is cut, in silence, with late events, restarts, and queries that come and go."""
    random, twin, followed, now = Random(seed), Twin(), {}, 0
    engine = engine_with(tmp_path, *VIEWS, portion_rows=random.choice((7, 10**6)))

    def register(name: str) -> None:
        engine.register(QUERIES[name].sql, name)
        followed[name] = Followed(QUERIES[name], now or None, twin)

    for name in random.sample(list(QUERIES), 9):
        register(name)
    for _ in range(16):
        since, now = now, now + random.choice((2, 2, 2, 3, 5, 40))
        for stream, batch in twin.draw(random, since, now).items():
            halves = (slice(0, len(batch["ts"]) // 2), slice(len(batch["ts"]) // 2, None))
            for half in halves if random.random() < 0.5 else (slice(None),):
                engine.push(stream, {name: pa.array(each[half], pa.string() if name == "k" else pa.int64())
                                     for name, each in batch.items()})  # fmt: skip
        if random.random() < 0.3:
            continue  # several updates at once
        emitted: dict[str, list[pa.Table]] = {}
        while True:
            answers = engine.advance(now * SECOND)
            for name, table in answers.items():
                emitted.setdefault(name, []).append(table)
            if not answers.more:
                break
        assert set(emitted) <= set(followed)
        for name, each in followed.items():
            found = by_instant(pa.concat_tables(emitted[name])) if name in emitted else {}
            wanted = each.expected(now)
            found = {instant: rows for instant, rows in found.items() if instant >= each.knows_from}
            assert found == wanted, (seed, name, now)
        instant = now // EVERY * EVERY
        for view in VIEWS:
            assert rows_of(engine.lookup(view)) == Counter(twin.content(view, instant)), (seed, view, now)
        for name in followed:
            query = QUERIES[name]
            if isinstance(engine.query(name), StandingQuery):
                rows = Counter(query.answer(twin.content(query.view, instant, query.size)))
                assert rows_of(engine.lookup(name)) == rows, (seed, name, now)
        if random.random() < 0.3:
            engine.check()
            engine = restarted(engine, tmp_path)
        if random.random() < 0.3 and len(followed) < len(QUERIES):
            register(random.choice([name for name in QUERIES if name not in followed]))
        if random.random() < 0.2:
            gone = random.choice(list(followed))
            engine.drop(gone)
            del followed[gone]
    engine.check()
