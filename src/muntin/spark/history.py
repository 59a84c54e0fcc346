"""History: past events in files, from which new queries are filled.

The shards that register a query read its history themselves, in the micro-batch that brings the query: each takes the
events of its own keys, before the seam, into a state beside its own, and joins the two (`shard/backfill.py`). Only
they know the seam. When all is there the shard writes a new base, so that its log never has to tell of a history, and
nobody reads the files again. A source of Spark's could not bring it: the sources of a checkpoint cannot become more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.errors import MuntinError, NotFound
from muntin.expression import Expression
from muntin.kernels.times import ascends
from muntin.shard.backfill import Backfill
from muntin.shard.record_batch import to_times
from muntin.shard.registration import History
from muntin.spark.delta import delta_files, is_delta
from muntin.spark.event_folder import FORMATS, files_of, parts_of, read_part
from muntin.spark.shard_of import shard_of_keys
from muntin.spark.shared_path import shared_path
from muntin.stream import Stream

_ROWS = 1 << 16  # of a history that was sorted, filled in at a time


def history_files(path: str) -> list[str]:
    """The files of a history, a folder, a Delta table or one file, in the order of their names; an error if there is
    none."""
    place = shared_path("history", path)
    if is_delta(path):
        files = delta_files(path)
    else:
        files = [place] if place.is_file() and place.suffix in FORMATS else files_of(path)
    if not files:
        raise NotFound(f"there is no {' or '.join(FORMATS)} file in '{path}', which is to be a history")
    return [str(file) for file in files]


def check_history(stream: Stream, files: Iterable[str], is_whole: bool) -> None:
    """An error that names the file if one cannot be read as events of a stream: of each file the first events are read,
    or all of them."""
    for file in files:
        for _ in _batches(stream, [file]):
            if not is_whole:
                break


def looked_up(stream: Stream, path: str) -> dict[str, Any]:
    """What all shards are told of the history that a statement names: its files, or why it is refused. The task that
    reads the statement has read all of it, so that shards need not come to an agreement."""
    try:
        files = history_files(path)
        check_history(stream, files, is_whole=True)
    except MuntinError as error:
        return {"refused": str(error)}
    return {"files": files}


def files_told(histories: Mapping[str, Any], path: str) -> str:
    """The files of a history as they are logged; an error if it is refused."""
    told = histories.get(path, {"refused": f"the history '{path}' was not read"})
    if "refused" in told:
        raise MuntinError(str(told["refused"]))
    return json.dumps(told["files"])


@dataclass(frozen=True)
class Share:
    """The events that one of several shards is given: those of its keys, or every so many-th."""

    keys: tuple[Expression, ...]
    bucket: int
    shards: int

    def of(self, events: pa.RecordBatch, place: int) -> Bools | None:
        """Which of some events belong to it, the first being at a `place` among all; None for all of them."""
        if self.shards == 1:
            return None
        if not self.keys:
            mine: Bools = (place + np.arange(events.num_rows)) % self.shards == self.bucket
            return mine
        given = dict(zip(events.schema.names, events.columns, strict=True))
        owned: Bools = shard_of_keys(
            [_array(key.evaluate(given)) for key in self.keys], self.shards
        ) == np.int64(self.bucket)
        return owned


def fill(
    backfill: Backfill, stream: Stream, files: Sequence[str], share: Share,
    fitted: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> None:  # fmt: skip
    """Fill a backfill with its share of a history, whose batches are `fitted` to its stream. The times that it begins
    and ends at are those of the whole: so windows are complete in all shards or in none."""
    whole, in_order = _span(stream, files, backfill.seam)
    mine = _mine(stream, files, share)
    if not in_order:
        mine = _sorted(stream, mine, backfill.seam)
    backfill.fill(map(fitted, mine))
    backfill.history = whole


def _batches(stream: Stream, files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for part in parts_of([Path(file) for file in files], 0):
        yield from read_part(part, stream)


def _span(stream: Stream, files: Sequence[str], seam: int | None) -> tuple[History | None, bool]:
    """From when to when a history has events before the seam, and whether all of it is in order of time."""
    times = replace(stream, schema=pa.schema([stream.schema.field(stream.time)]))
    whole, in_order, last = None, True, None
    for batch in _batches(times, files):
        at = to_times(times, batch)
        if not len(at):
            continue
        in_order = in_order and bool(ascends(at)) and (last is None or last <= int(at[0]))
        last = int(at[-1])
        kept = at if seam is None else at[at < seam]
        if len(kept):
            start, end = int(kept.min()), int(kept.max()) + 1
            whole = (
                History(start, end)
                if whole is None
                else History(min(start, whole.start), max(end, whole.end))
            )
    return whole, in_order


def _mine(stream: Stream, files: Sequence[str], share: Share) -> Iterator[pa.RecordBatch]:
    place = 0
    for batch in _batches(stream, files):
        mine = share.of(batch, place)
        place += batch.num_rows
        yield batch if mine is None else batch.filter(pa.array(mine))


def _sorted(stream: Stream, batches: Iterable[pa.RecordBatch], seam: int | None) -> Iterator[pa.RecordBatch]:
    """A share in order of time, events of the same time as they came. All of it is held."""
    held: list[pa.RecordBatch] = []
    times: list[Ints] = []
    for batch in batches:
        at = to_times(stream, batch)
        kept = np.ones(len(at), np.bool_) if seam is None else at < seam
        held.append(batch.filter(pa.array(kept)))
        times.append(at[kept])
    if not held:
        return
    events = pa.Table.from_batches(held).take(pa.array(np.argsort(np.concatenate(times), kind="stable")))
    yield from events.combine_chunks().to_batches(max_chunksize=_ROWS)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
