"""Archive: the writer of a view on disk. One process at a time writes; any number read.

An update writes new segments for the parts it touches, flushes them, and publishes them all at once by
replacing one small file. A call that raises has changed nothing, and neither has a crash. Once closed, an archive
writes no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import Drafts, remove
from muntin.archive.epoch import NAME, Epoch, Index, clean, publish, read_epoch
from muntin.archive.indexing import Indexing, Number, slot_of
from muntin.archive.liveness import Arrivals, Invalidations
from muntin.archive.lock import LOCK, WriterLock, check_removal, remove_abandoned, remove_files
from muntin.archive.rewrite import Touched
from muntin.archive.sorted_columns import is_sorted
from muntin.archive.stored import Extent, Stored
from muntin.archive.update import RemoteUpdate, Update, migrate_at_once, migrate_in_parallel, stops_for
from muntin.archive.view import View
from muntin.errors import ArchiveError, NameTaken

WRITERS = 8  # parts rewritten side by side: more than there are cores, since most wait for the disk


class Archive:
    """A view on disk that can be updated.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> folder = tempfile.mkdtemp()
    >>> columns = pa.schema([("symbol", pa.string()), ("price", pa.int64())])
    >>> archive = Archive.create(folder, Definition(columns, ("symbol",), window=16, every=2), "rebuild 2x2")
    >>> new = {"symbol": ["a", "b"], "price": [10, 20], "generated_at": [1, 2], "expires_at": [9, 4]}
    >>> archive.update(2, new).parts, archive.view.probe("b")["price"].to_pylist()
    (2, [20])
    >>> archive.update(4).parts, archive.view.read_all()["price"].to_pylist()
    (2, [10])
    """

    def __init__(self, folder: Path, epoch: Epoch, lock: WriterLock):
        self._folder = folder
        self._lock = lock
        self._view = View(epoch)
        self._pool = ThreadPoolExecutor(WRITERS, "muntin-archive")
        self._build_rate = 0.0  # bytes a second, as last measured
        self.touched = Touched()  # by the last update

    @classmethod
    def create(
        cls,
        folder: str | Path,
        definition: Definition,
        indexing: str | Indexing,
        about: Mapping[str, str] | None = None,
    ) -> Archive:
        """A new, empty archive in a folder of its own; `about` is kept for its owner."""
        folder = Path(folder)
        shape = Indexing.parse(indexing) if isinstance(indexing, str) else indexing
        shape.check(definition)
        if (folder / NAME).exists():
            raise NameTaken(f"there is an archive in '{folder}' already")
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArchiveError(f"'{folder}' cannot be made: {error.strerror or error}") from None
        lock = WriterLock(folder)
        epoch = Epoch(
            number=0,
            definition=definition,
            now=None,
            indexes=(Index.empty(shape),),
            invalidations=Invalidations(definition),
            log=None,
            arrivals=Arrivals(),
            about=about or {},
        )
        try:
            if (folder / NAME).exists():
                raise NameTaken(f"there is an archive in '{folder}' already")
            publish(folder, epoch)
        except BaseException:
            lock.close()
            if is_new:
                with suppress(OSError):
                    remove(folder / LOCK)
                    folder.rmdir()
            raise
        return cls(folder, epoch, lock)

    @classmethod
    def open(cls, folder: str | Path) -> Archive:
        """The archive in a folder, as of its last update; what a crash left over is removed."""
        folder = Path(folder)
        if not (folder / NAME).exists():
            read_epoch(folder)  # says what is missing
        lock = WriterLock(folder)
        try:
            epoch = read_epoch(folder)
        except BaseException:
            lock.close()
            raise
        clean(folder, epoch)
        remove_abandoned(folder)
        return cls(folder, epoch, lock)

    @property
    def view(self) -> View:
        """What it answers now; a view once taken does not change."""
        return self._view

    @property
    def definition(self) -> Definition:
        """What its results are."""
        return self._view.definition

    @property
    def indexing(self) -> Indexing:
        """How new results are indexed."""
        return self._view.epoch.index.indexing

    @property
    def is_closed(self) -> bool:
        """Whether it writes no more."""
        return self._lock.is_closed

    def update(
        self,
        now: int,
        results: Any = None,
        *,
        invalidated: Any = None,
        counts: Iterable[int] | None = None,
        batch: int | None = None,
        known_from: int | None = None,
    ) -> Touched:
        """Bring the view to `now`: remove what has expired and insert what is new, whole or not at all.

        `results` have the columns of the definition, `generated_at` and `expires_at`. `invalidated` are
        values that ended results before their time, with `invalidated_at`. With windows by count, `counts`
        are the events seen of each input, and there is no `expires_at`. A batch that is numbered, and not
        above the last one, is ignored. `known_from` is kept for those who go on with the archive: results of inputs
        before that time may be missing.
        """
        old = self._to_write()
        if batch is not None and old.batch is not None and batch <= old.batch:
            return Touched(of=self.indexing.parts)
        if old.now is not None and now < old.now:
            raise ArchiveError(f"the archive has been updated at {old.now}: it cannot go back to {now}")
        arrivals = self._arrivals(now, counts)
        rows = self.definition.conform(results, now)
        number = old.number + 1
        invalidations = old.invalidations
        if invalidated is not None:
            invalidations = invalidations.with_entries(self.definition, invalidated, number, now)
        if self.definition.by_count:
            rows = arrivals.with_guess(rows, now, self.definition)
        new = replace(old, number=number, now=now, invalidations=invalidations, arrivals=arrivals,
                      batch=old.batch if batch is None else batch,
                      known_from=old.known_from if known_from is None else known_from)  # fmt: skip
        born_alive = new.liveness().keep(rows)
        return self._publish(lambda drafts: Update(old, new, drafts, self._pool).run(born_alive))

    def plan_remote(self, now: int) -> RemoteUpdate:
        """An update to `now` whose parts others rewrite; nothing has changed before it is published."""
        return RemoteUpdate.plan(self._folder, self._to_write(), now)

    def publish_remote(
        self, update: RemoteUpdate, reports: Iterable[Mapping[str, Any]], batch: int | None = None
    ) -> Touched:
        """Publish what the rewriting of parts reported, whole or not at all."""
        old = self._to_write()
        index, touched = update.index_with(old, map(dict, reports))
        new = replace(old, number=update.number, now=update.now, indexes=(index,),
                      batch=old.batch if batch is None else batch)  # fmt: skip
        self._publish(lambda _: (new, touched))
        for path in update.leftovers(new):
            remove(path)
        return touched

    def note_batch(self, batch: int) -> None:
        """Remember that a batch was taken in that brought the view no further."""
        old = self._to_write()
        self._publish(lambda _: (replace(old, number=old.number + 1, batch=batch), Touched()))

    def migrate(self, indexing: str | Indexing, how: str = "auto", budget: float = 1.0) -> str:
        """Index the results in another way from now on; answers stay the same at every instant.

        `stop` builds the new index before anything else happens; `parallel` leaves the old results where
        they are until they have expired; `auto` stops if that takes at most `budget` seconds. Returns how.
        """
        old = self._to_write()
        shape = Indexing.parse(indexing) if isinstance(indexing, str) else indexing
        shape.check(self.definition)
        if how not in ("auto", "stop", "parallel"):
            raise ArchiveError(f"a migration is auto, stop or parallel, not {how!r}")
        if how == "auto":
            how = "stop" if stops_for(old, self._build_rate) <= budget else "parallel"
        change = migrate_at_once if how == "stop" else migrate_in_parallel
        self._publish(lambda drafts: change(self._view, shape, drafts))
        return how

    def check(self) -> None:
        """Read everything and raise an error that names the first thing that is not as it should be."""
        check_epoch(self._folder, self._view.epoch)

    def remove(self) -> None:
        """Remove it from disk, with its folder, and close it."""
        self._to_write()
        check_removal(self._folder)
        try:
            remove_files(self._folder)
        finally:
            if not (self._folder / NAME).exists():
                self.close()

    def close(self) -> None:
        """Let another process write, and write no more. Views stay readable."""
        self._pool.shutdown()
        self._lock.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _to_write(self) -> Epoch:
        """The epoch to go on from; an error if this process may not write."""
        self._lock.require()
        return self._view.epoch

    def _arrivals(self, now: int, counts: Iterable[int] | None) -> Arrivals:
        old = self._view.epoch.arrivals
        if not self.definition.by_count:
            if counts is not None:
                raise ArchiveError("counts are for windows by count; those of this view are by time")
            return old
        seen = tuple(counts or ())
        if len(seen) != len(self.definition.inputs):
            raise ArchiveError(f"{len(self.definition.inputs)} inputs need as many counts, not {len(seen)}")
        if any(now_seen < before for now_seen, before in zip(seen, old.seen, strict=False)):
            raise ArchiveError(f"counts cannot fall from {old.seen} to {seen}")
        return old.observe(now, seen, self.definition)

    def _publish(self, change: Callable[[Drafts], tuple[Epoch, Touched]]) -> Touched:
        """Write what `change` writes, publish the epoch it makes, and remove what is no longer used."""
        old, started = self._to_write(), time.perf_counter()
        drafts = Drafts(self._folder, old.number + 1)
        try:
            epoch, touched = change(drafts)
            is_safe = publish(self._folder, epoch)
        except BaseException:
            drafts.discard()
            raise
        if is_safe:
            for name in old.files() - epoch.files():
                remove(self._folder / name)
        self._view, self.touched = View(epoch), touched
        if touched.bytes_written:
            self._build_rate = touched.bytes_written / (time.perf_counter() - started)
        return touched


# Checking: every invariant of an archive, read from disk.


def check_epoch(folder: Path, epoch: Epoch) -> None:
    """Raise an error that names the first thing that is not as it should be."""
    for name in epoch.files():
        _demand((folder / name).exists(), f"segment '{folder / name}' is missing")
    for index in epoch.indexes:
        for number, part in enumerate(index.parts):
            most = index.indexing.variant.layout.most_runs
            _demand(len(part.runs) <= most, f"part {number} has {len(part.runs)} runs, more than {most}")
            for run in part.runs:
                _check_run(epoch, index, number, run)


def _check_run(epoch: Epoch, index: Index, number: Number, run: Stored) -> None:
    definition, path = epoch.definition, run.segment.path
    rows = pa.Table.from_batches(run.segment.between(0, run.rows), definition.schema)  # compares checksums
    _demand(rows.num_rows > 0, f"'{path}' is empty")
    if index.indexing.variant.layout.is_sorted:
        _demand(is_sorted(rows, definition.order), f"'{path}' is not in order")
    belongs = index.indexing.number_of(rows[GENERATED].to_numpy(), rows[EXPIRES].to_numpy(), definition)
    _demand((belongs == number).all(), f"'{path}' holds a result of another part than {number}")
    extent = Extent(definition)
    extent.see(rows)
    greatest = None if run.greatest_inputs is None else extent.greatest_inputs
    seen = (extent.least_expiry, extent.greatest_expiry, extent.least_inputs, greatest)
    known = (run.least_expiry, run.greatest_expiry, run.least_inputs, run.greatest_inputs)
    _demand(seen == known, f"'{path}' holds {seen}, the directory says {known}")
    if not definition.by_count and epoch.now is not None and not _may_wait(epoch, index, number):
        _demand((rows[EXPIRES].to_numpy() > epoch.now).all(), f"'{path}' holds a result that has expired")


def _may_wait(epoch: Epoch, index: Index, number: Number) -> bool:
    """Whether the dead may stay in a part: in all if it never sweeps, else in the oldest class of a lazy one."""
    variant, definition = index.indexing.variant, epoch.definition
    if not variant.sweeps:
        return True
    if not variant.is_lazy or epoch.now is None:
        return False
    oldest = slot_of(np.asarray(epoch.now), definition.every) - definition.per_window
    return number // index.indexing.expiries == int(index.indexing.generation_class(oldest, definition))


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ArchiveError(otherwise)
