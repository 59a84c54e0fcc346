"""What a version writes beside the checkpoints of engines: archives made by hand, texts of summaries, a view that Spark
keeps. Each has a function that writes it, and one that reads it as a later version should."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from story import MIDDLE, STREAMS, rows_of

import muntin
from muntin.archive import Archive, Definition, View

KEYS = ("a", "b", "c", "é")
INDEXINGS = {"rewritten": "rebuild 2x2", "appended": "no_rebuild 3x3", "swept": "wata_swept 4"}
UPDATES = 12  # of archives made by hand; LATER more follow once a later version has opened them
LATER = 6
SUMMARIES = {
    "floats": "APPROX_QUANTILE_SUMMARY(x, 0.05)",
    "integers": "APPROX_QUANTILE_SUMMARY(v, 0.05)",
    "sampled": "APPROX_COUNT_SUMMARY(k, 0.05, 0.1)",
    "words": "APPROX_COUNT_SUMMARY(k, 0.05)",
    "numbers": "APPROX_COUNT_SUMMARY(n, 0.05)",
}
ON_SPARK = (
    "CREATE MATERIALIZED VIEW kept AS SELECT t.k, v, y FROM t [RANGE 4 SECONDS] JOIN b [RANGE 2 SECONDS] "
    "ON t.k = b.k AND t.n = b.y EVERY 1 SECOND INDEX 'rebuild 2x2'"
)


def definition() -> Definition:
    """Matches of two windows of 16 and 8, by a text that may be NULL."""
    columns = pa.schema([("k", pa.string()), ("x", pa.float64()), ("a", pa.int64()), ("b", pa.int64())])
    return Definition(columns=columns, key=("k",), window=8, every=2, inputs=("a", "b"), sizes=(16, 8))


def update(archive: Archive, updates: range) -> None:
    """Ten results an update, drawn from its number, so that later versions go on with the same."""
    for number in updates:
        now, random = 2 * number, np.random.default_rng(number)
        a, b = (now - random.integers(1, 3, 10) for _ in "ab")
        keys = [KEYS[each] if each < len(KEYS) else None for each in random.integers(0, 5, 10)]
        results = {"k": keys, "x": np.round(random.normal(size=10), 3), "a": a, "b": b,
                   "generated_at": np.full(10, now), "expires_at": np.minimum(a + 16, b + 8)}  # fmt: skip
        archive.update(now, results)


def asked(view: View) -> dict[str, Any]:
    """What a view says: all of it, one key, a range of keys, smaller windows. Results of one key come in any order."""
    answers = {"all": view.read_all(), "a": view.probe("a"), "a to c": view.probe_range("a", "c"),
               "smaller": view.probe("b", sizes=(4, 4))}  # fmt: skip
    return {name: sorted(rows_of(table), key=repr) for name, table in answers.items()}


def write_archives(folder: Path) -> None:
    """Archives of several variants in `archives/`, and what they answer then and after further updates."""
    expected: dict[str, Any] = {}
    for name, indexing in INDEXINGS.items():
        with tempfile.TemporaryDirectory() as scratch:
            archive = Archive.create(Path(scratch) / name, definition(), indexing)
            update(archive, range(1, UPDATES + 1))
            ignored = shutil.ignore_patterns("*lock*")
            shutil.copytree(Path(scratch) / name, folder / "archives" / name, ignore=ignored)
            expected[name] = {"then": asked(archive.view)}
            update(archive, range(UPDATES + 1, UPDATES + LATER + 1))
            expected[name]["later"] = asked(archive.view)
            archive.close()
    _write(folder / "archives" / "answers.json", expected)


def write_summaries(folder: Path, push: Any) -> None:
    """Texts of summaries, of two halves of a stream, and what both together say."""
    texts: dict[str, list[str]] = {name: [] for name in SUMMARIES}
    for files in (range(MIDDLE // 2), range(MIDDLE // 2, MIDDLE)):
        engine = muntin.Engine()
        engine.execute(STREAMS)
        for name, call in SUMMARIES.items():
            engine.register(f"SELECT {call} AS text FROM t [RANGE 1 HOUR]", name=name)
        push(engine, folder / "events", files)
        for name in SUMMARIES:
            texts[name].append(engine.value(name))
        engine.close()
    told = {name: {"texts": both, "says": says(both)} for name, both in texts.items()}
    _write(folder / "summaries.json", told)


def says(texts: list[str]) -> dict[str, Any]:
    """What texts say together."""
    merged = muntin.merge_summaries(texts)
    told: dict[str, Any] = {"count": merged.count, "error": merged.error}
    if hasattr(merged, "quantile"):
        return told | {f"quantile {phi}": merged.quantile(phi) for phi in (0.1, 0.5, 0.9)}
    frequent = sorted(([each.item, each.lower, each.upper] for each in merged.frequent(0.1)), key=repr)
    return told | {"frequent": frequent, "bounds": [list(merged.bounds(each[0])) for each in frequent]}


def write_view_on_spark(folder: Path, session: Any) -> None:
    """The archive of a view that Spark keeps, in `views_on_spark/`, and the rows it has."""
    import muntin.spark

    keep = getattr(muntin.spark, "keep_view", None) or muntin.spark.archive_join
    with tempfile.TemporaryDirectory() as scratch:
        views, checkpoint = Path(scratch) / "views", Path(scratch) / "checkpoint"
        streams = dataframes(session, folder / "events")
        writer = keep(ON_SPARK, streams, time="ts", archive=str(views), checkpoint=str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        (folder / "views_on_spark").mkdir()
        ignored = shutil.ignore_patterns("*lock*", ".*.crc")
        shutil.copytree(views / "kept", folder / "views_on_spark" / "kept", ignore=ignored)
        _write(folder / "views_on_spark" / "rows.json", kept_rows(views))


def dataframes(session: Any, events: Path) -> dict[str, Any]:
    """The events of both streams as streaming DataFrames."""
    columns = {"t": "ts TIMESTAMP, k STRING, n INT, v BIGINT", "b": "ts TIMESTAMP, k STRING, y BIGINT"}
    return {
        name: session.readStream.schema(of)
        .option("maxFilesPerTrigger", 3)
        .parquet(str(events / name))
        .withWatermark("ts", "2 seconds")
        for name, of in columns.items()
    }


def kept_rows(views: Path) -> list[dict[str, Any]]:
    """What an engine reads of the view."""
    found = muntin.Engine(archive=views).execute("SELECT k, v, y FROM kept").select(["k", "v", "y"])
    return sorted(rows_of(found), key=repr)


def _write(file: Path, told: object) -> None:
    file.write_text(json.dumps(told, indent=0, ensure_ascii=False) + "\n")
