"""Migration: from one indexing to another, at once or while the old results expire."""

from __future__ import annotations

from dataclasses import replace

from muntin.archive.definition import Definition
from muntin.archive.disk import Drafts
from muntin.archive.epoch import Epoch, Index
from muntin.archive.indexing import Indexing, Number
from muntin.archive.liveness import Liveness
from muntin.archive.merge import chain_runs
from muntin.archive.rewrite import Touched, deal_out
from muntin.archive.segment import SegmentWriter
from muntin.archive.stored import Extent, Part
from muntin.archive.view import View

_SUPPOSED_RATE = 200e6  # bytes a second, before any update was measured


def migrate_at_once(view: View, indexing: Indexing, drafts: Drafts) -> tuple[Epoch, Touched]:
    """An epoch with a new index of all results that are alive; reads each once, holds a few MiB a part."""
    epoch, definition, layout = view.epoch, view.definition, indexing.variant.layout
    update = epoch.number + 1
    order = definition.order if layout.is_sorted else ()
    runs = [run.segment for run in epoch.runs()]
    pieces = view.sorted_pieces() if layout.is_sorted else chain_runs(runs, epoch.liveness().is_alive)
    writers: dict[Number, tuple[SegmentWriter, Extent]] = {}
    try:
        for piece in pieces:
            for number, rows in deal_out(piece, indexing, definition).items():
                if number not in writers:
                    writers[number] = (
                        SegmentWriter(drafts.path(), definition.schema, order),
                        Extent(definition),
                    )
                writer, extent = writers[number]
                writer.add(extent.see(rows))
        parts, size = [Part(applied=update)] * indexing.parts, 0
        for number, (writer, extent) in writers.items():
            if (segment := writer.finish()) is not None:
                parts[number] = Part((extent.stored(segment),), update)
                size += segment.size
    except BaseException:
        for writer, _ in writers.values():
            writer.abandon()
        raise
    read = sum(run.size for run in runs)
    touched = Touched(parts=len(writers), of=indexing.parts, bytes_read=read, bytes_written=size)
    return replace(epoch, number=update, indexes=(Index(indexing, tuple(parts)),)), touched


def migrate_in_parallel(view: View, indexing: Indexing, drafts: Drafts) -> tuple[Epoch, Touched]:
    """An epoch with a new index for new results; the old ones only lose results, until they are empty."""
    old = view.epoch
    retired = (
        replace(index, retired_at=old.now) if index.retired_at is None else index for index in old.indexes
    )
    new = replace(old, number=old.number + 1, indexes=(*retired, Index.empty(indexing)))
    return new, Touched(of=indexing.parts)


def stops_for(epoch: Epoch, rate: float) -> float:
    """Seconds that building anew would take, at a rate of bytes a second."""
    return sum(run.size for run in epoch.runs()) / (rate or _SUPPOSED_RATE)


def is_over(index: Index, liveness: Liveness, definition: Definition) -> bool:
    """Whether a retired index holds nothing alive any more.

    Known from the directory; only with windows by count are results read, once their time should be over.
    """
    if not definition.by_count:
        return all(liveness.is_dead(run) for run in index.runs())
    if index.retired_at is None or liveness.now < index.retired_at + definition.window:
        return not any(True for _ in index.runs())
    batches = (batch for run in index.runs() for batch in run.segment.between(0, run.rows))
    return not any(liveness.is_alive(batch).any() for batch in batches)
