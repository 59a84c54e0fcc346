"""Write the state that this version leaves, for later versions: `write_state.py VERSION [PART …]` (README.md)."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from apart import write_archives, write_summaries, write_view_on_spark
from names import public_names
from story import (
    FILES,
    HERE,
    MIDDLE,
    QUERIES,
    QUERIES_SINCE_0_2,
    STANDING_SINCE_0_2,
    STREAMS,
    STREAMS_SINCE_0_2,
    VIEWS,
    VIEWS_SINCE_0_2,
    answers,
    move_spark,
    push,
    run_on_spark,
    write_events,
)

import muntin


def main(name: str, *parts: str) -> None:
    """Fill the folder of one version, or write the named parts of it."""
    if name != muntin.__version__:
        sys.exit(f"this is muntin {muntin.__version__}, not {name}")
    folder = HERE / name
    for part in parts or PARTS:
        file, write = PARTS[part]
        if (folder / file).exists():
            sys.exit(f"{folder / file} is there already: the state of a released version never changes")
        folder.mkdir(exist_ok=True)
        write(folder)


def _write_state(folder: Path) -> None:
    write_events(folder / "events")
    found = _write_embedded(folder) | {"spark": _write_spark(folder)}
    (folder / "answers.json").write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")


def _write_view(folder: Path) -> None:
    import muntin.spark

    write_view_on_spark(folder, muntin.spark.local_session(cores=2, memory="1g"))


def _write_names(folder: Path) -> None:
    told = json.dumps(public_names(), indent=0)
    (folder / "names.json").write_text(f"{told}\n")


def _write_embedded(folder: Path) -> dict[str, object]:
    """Views in `archive/`, the checkpoint beside them, and the answers at that moment and later."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "archive"
        engine = muntin.Engine(archive=archive)
        engine.execute(STREAMS + STREAMS_SINCE_0_2)
        engine.register_many(QUERIES | QUERIES_SINCE_0_2)
        for sql in (VIEWS | VIEWS_SINCE_0_2).values():
            engine.execute(sql)
        engine.execute(STANDING_SINCE_0_2)
        push(engine, folder / "events", range(MIDDLE))
        engine.advance()  # what closed before the checkpoint is not owed any more
        engine.checkpoint(folder / "engine.muntin")
        shutil.copytree(archive, folder / "archive", ignore=shutil.ignore_patterns("*lock*"))
        found: dict[str, object] = {"at the checkpoint": answers(engine)}
        push(engine, folder / "events", range(MIDDLE, FILES))
        found["after it"] = answers(engine)
        engine.close()
    return found


def _write_spark(folder: Path) -> dict[str, object]:
    """The checkpoint of a job that has taken MIDDLE files, and all answers that a job without a stop gives."""
    import muntin.spark

    session = muntin.spark.local_session(cores=2, memory="1g")
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "events" / "t"
        first.mkdir(parents=True)
        for number in range(MIDDLE):
            shutil.copy(folder / "events" / "t" / f"{number}.parquet", first)
        run_on_spark(session, first.parent, Path(scratch) / "stopped")
        leftovers = shutil.ignore_patterns(".*.crc", "*.tmp")
        shutil.copytree(Path(scratch) / "stopped", folder / "spark", ignore=leftovers)
        move_spark(folder / "spark", scratch, "")
        return run_on_spark(session, folder / "events", Path(scratch) / "whole")


# What each part writes first, and its function. `state` comes first: others read its events.
PARTS = {
    "state": ("events", _write_state),
    "archives": ("archives", write_archives),
    "summaries": ("summaries.json", lambda folder: write_summaries(folder, push)),
    "view": ("views_on_spark", _write_view),
    "names": ("names.json", _write_names),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
