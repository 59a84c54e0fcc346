"""The input files of a run, one for each stream, read side by side in event time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.event_file import EventFile, EventFolder, open_events
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.run.script import Script

Events = EventFile | EventFolder


def open_inputs(script: Script, given: Sequence[str], stream: str | None) -> list[Events]:
    """The files of `--input FILE`, or of `--input STREAM=FILE` for each of several streams."""
    if len(given) == 1 and _split(script, given[0]) is None:
        _refuse_unknown(script, given[0])
        return [open_events(Path(given[0]), script.stream_of_input(stream))]
    files: dict[str, Events] = {}
    for text in given:
        named = _split(script, text)
        if named is None:
            _refuse_unknown(script, text)
            known = ", ".join(script.streams)
            raise MuntinError(f"which stream is '{text}'? write --input STREAM=FILE; there are: {known}")
        name, path = named
        if name in files:
            raise NameTaken(f"two inputs are given for stream '{name}'")
        files[name] = open_events(path, script.streams[name])
    return list(files.values())


def _split(script: Script, text: str) -> tuple[str, Path] | None:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and name in script.streams else None


def _refuse_unknown(script: Script, text: str) -> None:
    """A file may have a = in its name; if there is none of that name, what stands before it is a stream."""
    name, equals, _ = text.partition("=")
    if equals and not Path(text).exists() and name.isidentifier():
        raise NotFound(f"the script has no stream '{name}'{nearest(name, script.streams)}")


def side_by_side(files: Sequence[Events], batch_rows: int) -> Iterator[tuple[Events, pa.RecordBatch]]:
    """The batches of all files; of those at hand, the one that ends first, so that no stream runs far ahead."""
    readers = {file: file.batches(batch_rows) for file in files}
    at_hand: dict[Events, pa.RecordBatch] = {}
    while True:
        for file, reader in list(readers.items()):
            if file not in at_hand:
                batch = next(reader, None)
                if batch is None:
                    del readers[file]
                else:
                    at_hand[file] = batch
        if not at_hand:
            return
        file = min(at_hand, key=lambda each: latest(at_hand[each], each.stream.time))
        yield file, at_hand.pop(file)


def latest(batch: pa.RecordBatch, time: str) -> int:
    """The greatest event time of a batch: microseconds, rounded down."""
    column = batch[time]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    greatest = pc.max(column).as_py()
    return 0 if greatest is None else int(greatest)  # a time that is NULL is refused when it is pushed
