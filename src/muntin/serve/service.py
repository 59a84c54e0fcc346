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
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.arrow_bytes import stream_bytes
from muntin.derived import refuse_pushing
from muntin.engine import Engine
from muntin.errors import MuntinError, NotFound
from muntin.serve.admission import admit
from muntin.serve.answers import KeptAnswers
from muntin.serve.checkpoints import Checkpoints
from muntin.serve.connections import Connections
from muntin.serve.debt import Debt, apart
from muntin.serve.log import Log, LogError
from muntin.serve.look_ups import LookUps
from muntin.serve.producers import Once, Producers
from muntin.serve.record import Record, read_table, unpack_record
from muntin.serve.replay import Replay
from muntin.serve.script import Roster
from muntin.serve.settings import Settings, Stopped
from muntin.serve.taken import Lost, Taken
from muntin.serve.waiting import Change, Waiting
from muntin.shard.emit.portion import portions
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.stream import Stream
from muntin.table import Table
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")
_UNLOGGED = ("checkpoint", "connect")  # what the writer does that is no change
REPEATED: Any = object()  # what a change gives that was made before, under the same number of its producer


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
        self._now = 0  # the clock on the wall as the record at work has it, in microseconds
        self.producers = Producers()
        self._until: int | None = None  # how far time was promised to have come, by the records at work
        self.streams: Mapping[str, Stream]  # as of the last statement: to ask for them waits for nobody
        self.tables: Mapping[str, Table]
        self._engine: Engine
        self._roster: Roster
        self._done: int  # the record that was applied last
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
        self._writer = threading.Thread(target=self._write, name="muntin writer", daemon=True)
        self._writer.start()
        try:
            if script != self._roster.script:
                admit(script, self._engine, self.folders)
                self.change(Record("script", {"sql": script})).result()
        except BaseException:
            self.stop(is_kept=False)
            raise
        self.change(Record("connect")).result()

    # -- what callers ask for ----------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """To look up in; whoever changes it goes through `change`."""
        return self._engine

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
        return self._roster.incarnations.get(name)

    @property
    def queries(self) -> int:
        """How many are registered."""
        return len(self._roster.incarnations)

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
        admit(sql, self._engine, self.folders)  # an error at the word, before anything is written
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
        if is_kept and self.failure is None and self._done > self._checkpointed:
            self._keep()
        self.look_ups.close()
        self._engine.close()
        self._answers.close()
        self._log.close()

    # -- the writer --------------------------------------------------------------------------------

    def _write(self) -> None:
        group: list[Change] | None = None
        try:
            while (group := self._waiting.gather(max(0.1, self._seconds_left()))) is not None:
                for part in apart(group):
                    self._do(part)
                if self._is_due():
                    self._keep()
        except BaseException as error:
            _log.exception("the writer has failed: no more changes are taken")
            self.failure = error
            with self._gate:
                left = self._waiting.drain()
            self._answers.dismiss()
            for each in (*(group or ()), *left):
                if not each.done.done():
                    each.done.set_exception(Stopped(f"the service has stopped: {error}"))

    def _do(self, group: Sequence[Change]) -> None:
        """Log, apply and answer changes, in order."""
        logged = self._debt.bounded([each for each in group if each.record.do not in _UNLOGGED])
        found: list[Any] = []
        if logged:
            now, last = time.time_ns() // 1_000, self._log.last + len(logged)
            group_told = {"at": now, "last": last}
            records = [replace(each.record, told=each.record.told | group_told) for each in logged]
            try:
                self._log.append([each.pack() for each in records])
            except LogError as error:
                for waiting in logged:
                    waiting.done.set_exception(error)
                return
            for number, record, waiting in zip(count(last - len(records) + 1), records, logged, strict=False):
                found.append(self._tried(number, record, waiting.rows))
                self.look_ups.answer()
            self._close_windows(last, now)
            self._debt.settle(logged, found)
        if any(each.record.do in ("execute", "script", "connect") for each in group):
            self._connections.follow(self._roster)
        for waiting, given in zip(logged, found, strict=True):  # now: what they closed has been given out
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
                except MuntinError as error:
                    waiting.done.set_exception(error)

    def _tried(self, number: int, record: Record, rows: pa.RecordBatch | None = None) -> Any:
        """What a record gives, or its error."""
        try:
            return self._apply(number, record, rows)
        except Lost:  # by a replay: what was taken once cannot be left out in silence
            raise
        except MuntinError as error:
            return error

    def _apply(self, number: int, record: Record, rows: pa.RecordBatch | None) -> Any:
        """Do what a record says, unless its producer has sent it before; the same when it is done again. An error has
        changed nothing."""
        self._now, self._done = record.told["at"], number
        if record.once is not None and self.producers.has(record.once):
            return REPEATED
        found = self._make(number, record, rows)
        if record.once is not None:
            self.producers.add(record.once)
        return found

    def _make(self, number: int, record: Record, rows: pa.RecordBatch | None) -> Any:
        match record.do:
            case "push":
                batch = read_table(record.body) if rows is None else rows
                self._engine.push(record.told["stream"], batch)
                return batch.num_rows
            case "take":
                return self._roster.take(self._engine, record, self._replay)
            case "load":
                batch = read_table(record.body) if rows is None else rows
                self._engine.load(record.told["table"], batch)
                return batch.num_rows
            case "execute":
                return self._stated(lambda: self._roster.execute(self._engine, record.told["sql"], number))
            case "script":
                return self._stated(
                    lambda: self._roster.follow_script(self._engine, record.told["sql"], number)
                )
            case "advance":
                self._until = record.told["until"]
                return None
        raise LogError(f"record {number} of the log asks for '{record.do}', which this version does not know")

    def _stated(self, work: Callable[[], Any]) -> Any:
        """What statements give; streams and tables may be others then."""
        found = work()
        self.streams, self.tables = self._engine.streams, self._engine.tables
        return found

    def _close_windows(self, number: int, now: int) -> None:
        """Give out what closed by the records up to this one."""
        until, self._until = self._until, None
        for portion, given in enumerate(portions(self._engine, until)):
            self._answers.take((number, portion), now, given, self._roster.incarnations)
            self.look_ups.answer()

    # -- checkpoints and starts --------------------------------------------------------------------

    def _seconds_left(self) -> float:
        return self._checkpointed_at + self.settings.checkpoint_seconds - time.monotonic()

    def _is_due(self) -> bool:
        if self._done == self._checkpointed:
            return False
        return self._seconds_left() <= 0 or self._log.written - self._logged > self.settings.checkpoint_bytes

    def _keep(self) -> int:
        """Write a checkpoint, and let go of what only older ones need."""
        self._checkpointed_at = time.monotonic()
        self._answers.sync()
        numbers = {str(incarnation): number for incarnation, number in self._answers.numbers.items()}
        delivered = self._connections.delivered()
        note = {
            "record": self._done, "numbers": numbers, "roster": self._roster.note(),
            "producers": self.producers.note(),
            "delivered": {name: list(place) for name, place in delivered.items()},
        }  # fmt: skip
        self._engine.checkpoint(self._checkpoints.path(self._done), note=note)
        self._checkpointed, self._logged = self._done, self._log.written
        self._log.forget(self._checkpoints.forget_old())
        self._answers.forget(time.time_ns() // 1_000, min(delivered.values(), default=None))
        return self._done

    def _open(self, folder: Path) -> None:
        """From the newest good checkpoint, and the records behind it."""
        began = time.monotonic()
        self._checkpoints = Checkpoints(folder / "checkpoints")
        self._engine, self._roster, self._done = self._restored()
        self._connections = Connections(self, self._delivered)
        self._replay = Replay(self._engine, self.folders, self.settings.skips_lost)
        self.look_ups = LookUps(self._engine)
        self._debt = Debt(self._engine, self.settings.instants)
        self.streams, self.tables = self._engine.streams, self._engine.tables
        self._checkpointed_at, self._checkpointed, self._logged = began, self._done, 0
        records, now, is_open = self._log.last - self._done, 0, False
        for number, data in self._log.read(self._done + 1):
            record = unpack_record(data)
            now, is_open = record.told["at"], record.told["last"] != number
            self._tried(number, record)  # whoever asked was told of an error then
            if not is_open:
                self._close_windows(number, now)
        self._replay.close()
        if is_open:  # of records that were logged together the last ones are lost, and nobody was told of any
            self._close_windows(self._done, now)
        if self._log.cut_off:
            _log.warning(
                "%d bytes at the end of the log were never acknowledged and are cut off", self._log.cut_off
            )
        _log.info("opened %s; records done again: %d, in %.1f s", folder, records, time.monotonic() - began)

    def _restored(self) -> tuple[Engine, Roster, int]:
        options: dict[str, Any] = {
            "archive": self._archive, "folders": [self._archive, *self.settings.folders],
            "clock": lambda: self._now, "portion_rows": 100_000, "threads": self.settings.threads,
        }  # fmt: skip
        engine = self._checkpoints.restored(self._log.first, options)
        if engine is None:
            return Engine(**options), Roster(), 0
        delivered = engine.note.get("delivered", {})
        self._delivered = {name: (place[0], place[1]) for name, place in delivered.items()}
        self._answers.numbers = {int(name): number for name, number in engine.note["numbers"].items()}
        self.producers = Producers(engine.note.get("producers", ()))
        return engine, Roster.read(engine.note["roster"]), int(engine.note["record"])
