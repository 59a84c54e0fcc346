"""The service: an engine whose every change is in a log before it is made.

    change --log, one sync for many--> applied in the order of the log --> answers, numbered and kept for a time

One thread, the *writer*, makes all changes. It takes what has gathered since its last turn, appends it to the log with
one sync, applies it, and asks for the windows that closed. So a start after a crash is a checkpoint and the records
behind it, done again in the same order: the same events are late, and the same answers get the same ids. Look-ups do
not pass through the writer: they ask the engine, which any thread may.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.arrow_bytes import stream_bytes
from muntin.derived import refuse_pushing
from muntin.engine import Engine
from muntin.errors import CheckpointError, MuntinError, NotFound
from muntin.serve.admission import admit
from muntin.serve.answers import KeptAnswers
from muntin.serve.applied import Applied, Unapplied, Wall
from muntin.serve.checkpoints import Checkpoints
from muntin.serve.closing import Closing
from muntin.serve.connections import Connections
from muntin.serve.debt import Debt, apart
from muntin.serve.keeping import Keeping
from muntin.serve.log import Log, LogError
from muntin.serve.look_ups import LookUps
from muntin.serve.producers import Once, Producers
from muntin.serve.record import Record
from muntin.serve.script import Roster
from muntin.serve.settings import Settings, Stopped
from muntin.serve.taken import Taken
from muntin.serve.waiting import Change, Waiting
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.stream import Stream
from muntin.table import Table
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")
_UNLOGGED = ("checkpoint", "connect")  # what the writer does that is no change
_AGAIN = 1.0  # seconds after which answers that a full disk did not take are tried again


class Service:
    """Opened on a folder, it has all that was acknowledged before, whatever ended the process then.

    >>> import tempfile
    >>> script = "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts; "
    >>> script += "REGISTER QUERY q AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]"
    >>> service = Service(Path(tempfile.mkdtemp()), script)
    >>> service.push("s", pa.table({"ts": [0, 1], "n": [2, 3]})).result()
    2
    >>> service.engine.value("q")
    5
    >>> service.stop()
    """

    def __init__(self, folder: Path, script: str, settings: Settings | None = None):
        self.settings = settings or Settings()
        self._archive = folder / "archive"
        self.folders = Folders(self.settings.folders)
        self._delivered: dict[str, tuple[int, int]] = {}  # up to where sinks had come at the last checkpoint
        with ExitStack() as opened:  # and closed, unless all can be
            self._log = opened.enter_context(closing(Log(folder / "log")))
            kept = KeptAnswers(folder / "answers", self.settings.answers_seconds)
            self._answers = opened.enter_context(closing(kept))
            self._open(folder)
            opened.pop_all()
        self._waiting = Waiting(self.settings)
        self._gate = threading.Lock()  # nothing comes behind the end
        self._is_stopping = False
        self.failure: BaseException | None = None  # why the writer ended, if nobody asked it to
        self._when_failed: Callable[[], None] | None = None
        self._writer = threading.Thread(target=self._write, name="muntin writer", daemon=True)
        self._writer.start()
        try:
            if script != self._applied.roster.script:
                admit(script, self.engine, self.folders)
                self.change(Record("script", {"sql": script})).result()
            self.change(Record("connect")).result()
        except BaseException:
            self.stop(is_kept=False)
            raise

    # -- what callers ask for ----------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """To look up in; whoever changes it goes through `change`."""
        return self._applied.engine

    @property
    def streams(self) -> Mapping[str, Stream]:
        """As of the last statement: to ask for them waits for nobody."""
        return self._applied.streams

    @property
    def tables(self) -> Mapping[str, Table]:
        """The same of tables."""
        return self._applied.tables

    @property
    def producers(self) -> Producers:
        """Who has numbered changes, and how far."""
        return self._applied.producers

    @property
    def answers(self) -> KeptAnswers:
        """What was given out."""
        return self._answers

    @property
    def connections(self) -> Connections:
        """Sources and sinks at work."""
        return self._connections

    def incarnation(self, name: str) -> int | None:
        """Of a query, if there is one of this name."""
        return self._applied.roster.incarnations.get(name)

    @property
    def queries(self) -> int:
        """How many are registered."""
        return len(self._applied.roster.incarnations)

    @property
    def is_ready(self) -> bool:
        """Whether changes are taken."""
        return self.failure is None and not self._is_stopping

    @property
    def waiting(self) -> int:
        """Changes that wait for the writer."""
        return len(self._waiting)

    @property
    def log_bytes(self) -> int:
        """Bytes of the log on disk."""
        return self._log.nbytes

    @property
    def unkept(self) -> int:
        """Records of the log that no checkpoint knows of."""
        return self._applied.done - self.keeping.record

    def when_failed(self, do: Callable[[], None]) -> None:
        """Have something done if the writer ends and nobody asked it to; at once if it has."""
        with self._gate:
            self._when_failed = do
        if self.failure is not None:
            do()

    def push(
        self, stream: str, table: pa.Table, body: bytes | None = None, once: Once | None = None
    ) -> Future[Any]:
        """Events of a stream; the number of them, when they are in the log and in the engine.

        What does not fit the stream is refused here, before anything is written. `body` is the table as Arrow's stream
        format, if it came so: the log takes it as it is if its columns are those of the stream. A change that was made
        before under the number that its producer gives it (`once`) gives `REPEATED`.
        """
        if (declared := self.streams.get(stream)) is None:
            raise NotFound(f"there is no stream '{stream}'")
        refuse_pushing(declared)
        batch = to_record_batch(declared, table)
        to_times(declared, batch)
        return self._change_rows(Record("push", {"stream": stream}).called(once), batch, table, body)

    def take(self, stream: str, taken: Taken, events: pa.RecordBatch) -> Future[Any]:
        """Messages of a stream's source; the number of events, when their ranges are in the log and they are in the
        engine."""
        told = {"stream": stream, "ranges": list(map(list, taken.ranges)), "bad": list(map(list, taken.bad))}
        return self.change(Record("take", told, events=events))

    def load(
        self, name: str, table: pa.Table, body: bytes | None = None, once: Once | None = None
    ) -> Future[Any]:
        """Rows of a table, inserted or replaced by primary key."""
        declared = self.tables.get(name)
        if declared is None:
            raise NotFound(f"there is no table '{name}'")
        batch = to_record_batch(declared, table)
        return self._change_rows(Record("load", {"table": name}).called(once), batch, table, body)

    def _change_rows(
        self, record: Record, batch: pa.RecordBatch, table: pa.Table, body: bytes | None
    ) -> Future[Any]:
        if body is None or not table.schema.equals(batch.schema):
            body = stream_bytes(batch)
        return self.change(replace(record, body=body), batch)

    def execute(self, sql: str, once: Once | None = None) -> Future[Any]:
        """Statements that change something; what the last one gives."""
        admit(sql, self.engine, self.folders)  # an error at the word, before anything is written
        return self.change(Record("execute", {"sql": sql}).called(once))

    def advance(self, until: int) -> Future[Any]:
        """A promise that time has reached an instant."""
        return self.change(Record("advance", {"until": until}))

    def change(self, record: Record, rows: pa.RecordBatch | None = None) -> Future[Any]:
        """Have something done; what it gives, or the error, once it is in the log. `rows` are what its body says, if
        it has been read."""
        change = Change(record, rows)
        with self._gate:
            if not self.is_ready:
                raise Stopped(f"the service has stopped{f': {self.failure}' if self.failure else ''}")
            self._waiting.put(change)
        return change.done

    def checkpoint(self) -> Future[Any]:
        """Write a checkpoint now; the record of the log that it stands at."""
        return self.change(Record("checkpoint"))

    def stop(self, is_kept: bool = True) -> None:
        """Finish what waits, write a checkpoint, and let go of the folder."""
        self._connections.stop_sources()  # before the writer, whom they may wait for
        with self._gate:
            if self._is_stopping:
                return
            self._is_stopping = True
            self._waiting.stop()
        self._writer.join()
        self._connections.stop_sinks()
        if is_kept and self.failure is None and self.unkept:
            with suppress(MuntinError):  # what was taken is in the log
                self._keep()
        self.look_ups.close()
        self._applied.engine.close()
        self._answers.close()
        self._log.close()

    # -- the writer --------------------------------------------------------------------------------

    def _write(self) -> None:
        group: list[Change] | None = None
        try:
            while (group := self._waiting.gather(self._patience())) is not None:
                for part in apart(group):
                    self._do(part)
                if self.keeping.is_due(self._applied.done, self._log.written):
                    with suppress(CheckpointError, LogError):  # it has been told, and is tried again
                        self._keep()
        except BaseException as error:
            _log.exception("the writer has failed, and the server ends: %s", error)
            with self._gate:
                self.failure = error
                left, tell = self._waiting.drain(), self._when_failed
            self._answers.dismiss()
            for each in (*(group or ()), *left):
                if not each.done.done():
                    each.done.set_exception(Stopped(f"the service has stopped: {error}"))
            if tell is not None:
                tell()

    def _patience(self) -> float:
        """For how long the writer waits for changes before it looks at what else there is to do."""
        left = max(0.1, self.keeping.seconds_left)
        return min(left, _AGAIN) if self.closing.is_behind else left

    def _do(self, group: Sequence[Change]) -> None:
        """Log, apply and answer changes, in order."""
        logged = [each for each in group if each.record.do not in _UNLOGGED]
        try:
            self.closing.go_on()
        except LogError as error:  # no room for answers: what they are of must not go on
            _refuse(logged, error)
            logged = []
        if logged:
            logged = self.debt.bounded(logged)
        found = self._made(logged) if logged else []
        if any(each.record.do in ("execute", "script", "connect") for each in group):
            self._connections.follow(self._applied.roster)
        for waiting, given in zip(logged, found, strict=False):  # now: what they closed has been given out
            if isinstance(given, MuntinError):
                waiting.done.set_exception(given)
            else:
                waiting.done.set_result(given)
        for waiting in group:
            if waiting.record.do == "connect":
                waiting.done.set_result(None)
            if waiting.record.do == "checkpoint":
                try:
                    waiting.done.set_result(self._keep())
                except (CheckpointError, LogError) as error:
                    waiting.done.set_exception(error)

    def _made(self, changes: Sequence[Change]) -> list[Any]:
        """What changes give, once they are in the log; nothing if it does not take them, and then they know."""
        now, last = time.time_ns() // 1_000, self._log.last + len(changes)
        records = [
            replace(each.record, told=each.record.told | {"at": now, "last": last}) for each in changes
        ]
        try:
            self._log.append([each.pack() for each in records])
        except LogError as error:
            _refuse(changes, error)
            return []
        found: list[Any] = []
        for number, record, waiting in zip(count(last - len(records) + 1), records, changes, strict=False):
            found.append(self._applied.tried(number, record, waiting.rows))
            self.look_ups.answer()
        try:
            self.closing.close()
        except LogError as error:
            # the changes are made, and what they closed is given out when there is room
            _log.error("changes are refused until answers can be kept: %s", error)
        self.debt.settle(changes, found)
        return found

    # -- checkpoints and starts --------------------------------------------------------------------

    def _keep(self) -> int:
        """Write a checkpoint, and let go of what only older ones need; the record it stands at."""
        try:
            self.closing.go_on()
            self._answers.sync()
            applied, delivered = self._applied, self._connections.delivered()
            numbers = {str(incarnation): number for incarnation, number in self._answers.numbers.items()}
            note = {
                "record": applied.done, "numbers": numbers, "roster": applied.roster.note(),
                "producers": applied.producers.note(),
                "delivered": {name: list(place) for name, place in delivered.items()},
            }  # fmt: skip
            applied.engine.checkpoint(self._checkpoints.path(applied.done), note=note)
            self.keeping.kept(applied.done, self._log.written)
            self._log.forget(self._checkpoints.forget_old())
            self._answers.forget(time.time_ns() // 1_000, min(delivered.values(), default=None))
        except Unapplied:
            raise
        except Exception as error:  # whatever it was: state is as it was
            self.keeping.failed(error)
            if isinstance(error, CheckpointError | LogError):
                raise
            raise CheckpointError(f"no checkpoint can be written: {type(error).__name__}: {error}") from error
        return applied.done

    def _open(self, folder: Path) -> None:
        """From the newest good checkpoint, and the records behind it."""
        began = time.monotonic()
        self._checkpoints = Checkpoints(folder / "checkpoints")
        self._applied = self._restored()
        done = self._applied.done
        self.keeping = Keeping(self.settings, done, self._checkpoints.written_at(done))
        self._connections = Connections(self, self._delivered)
        self.look_ups, self.debt = LookUps(self.engine), Debt(self.engine, self.settings.instants)
        self.closing = Closing(self._applied, self._answers, self.look_ups)
        is_open = False
        for number, data in self._log.read(done + 1):
            is_open = self._applied.again(number, data)
            if not is_open:
                self.closing.close()
        self._applied.end_replay()
        if is_open:  # of records that were logged together the last ones are lost, and nobody was told of any
            self.closing.close()
        if self._log.cut_off:
            _log.warning(
                "%d bytes at the end of the log were never acknowledged and are cut off", self._log.cut_off
            )
        if self._applied.tell_skipped(done, self._log.last):
            self._keep()  # so that the next start does not meet what was passed over
        many, seconds = self._log.last - done, time.monotonic() - began
        _log.info("opened %s; records done again: %d, in %.1f s", folder, many, seconds)

    def _restored(self) -> Applied:
        wall = Wall()
        options: dict[str, Any] = {
            "archive": self._archive, "folders": [self._archive, *self.settings.folders],
            "clock": lambda: wall.at, "portion_rows": 100_000, "threads": self.settings.threads,
        }  # fmt: skip
        engine = self._checkpoints.restored(self._log.first, options)
        if engine is None:
            return Applied(Engine(**options), Roster(), Producers(), 0, wall, self.settings)
        note = engine.note
        self._delivered = {name: (place[0], place[1]) for name, place in note.get("delivered", {}).items()}
        self._answers.numbers = {int(name): number for name, number in note["numbers"].items()}
        producers, roster = Producers(note.get("producers", ())), Roster.read(note["roster"])
        return Applied(engine, roster, producers, int(note["record"]), wall, self.settings)


def _refuse(changes: Sequence[Change], error: MuntinError) -> None:
    for each in changes:
        each.done.set_exception(error)
