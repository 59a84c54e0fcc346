"""What the records of the log have made: an engine, who is registered in it, and what producers have sent.

Records are applied in the order of the log: by the writer, and once more by a start. An error of muntin's own has
changed nothing, and is for whoever asked. Any other exception may have left a change half made. Nobody goes on from
there: the process ends, and a start does the record again, from a checkpoint. If it fails there, too, it can be passed
over.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.serve.producers import Producers
from muntin.serve.record import Record, read_table, unpack_record
from muntin.serve.replay import Replay
from muntin.serve.script import Roster
from muntin.serve.settings import Settings
from muntin.serve.taken import Lost, Range
from muntin.stream import Stream
from muntin.table import Table
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")
_SHOWN = 500  # characters of a record that is passed over
REPEATED: Any = object()  # what a change gives that was made before, under the same number of its producer


class Unapplied(MuntinError):
    """A record of the log with which nobody can go on."""


@dataclass
class Wall:
    """The clock on the wall as the record at work has it, in microseconds."""

    at: int = 0


class Applied:
    """An engine and what belongs to it, as of the record `done`."""

    def __init__(
        self, engine: Engine, roster: Roster, producers: Producers, done: int, wall: Wall, settings: Settings
    ):
        self.engine, self.roster, self.producers = engine, roster, producers
        self.done = done  # the record that was applied last
        self.wall = wall
        self.until: int | None = None  # how far time was promised to have come, by the records at work
        self.streams: Mapping[str, Stream]  # as of the last statement: to ask for them waits for nobody
        self.tables: Mapping[str, Table]
        self.streams, self.tables = engine.streams, engine.tables
        self._replay = Replay(engine, Folders(settings.folders), settings.skips_lost)
        self._skipped = settings.skipped
        self._last = done  # of the records that were logged together with the one that a start did again

    def tried(self, number: int, record: Record, rows: pa.RecordBatch | None = None) -> Any:
        """What a record gives, or its error."""
        try:
            return self._apply(number, record, rows)
        except (Lost, Unapplied):  # the first by a replay: what was taken once cannot be left out in silence
            raise
        except MuntinError as error:
            return error
        except Exception as error:
            raise _unapplied(number, f"({record.do}) cannot be applied", error) from error

    def again(self, number: int, data: bytes) -> bool:
        """Apply a record as a start finds it in the log; whether others were logged together with it, behind it."""
        try:
            record = unpack_record(data)
        except Exception as error:
            if number not in self._skipped:
                raise _unapplied(number, "cannot be read", error) from error
            _log.warning(
                "record %d of the log is passed over (--skip-record): it cannot be read: %s", number, error
            )
            self.done = number
            return number < self._last
        if number in self._skipped:
            self._pass_over(number, record)
        else:
            self.tried(number, record)  # whoever asked was told of an error then
        self._last = record.told["last"]
        return number < self._last

    def end_replay(self) -> None:
        """Nothing is read again any more."""
        self._replay.close()

    def tell_skipped(self, first: int, last: int) -> bool:
        """Warn of records that were to be passed over and are not among those that a start did again, behind `first`;
        whether some were passed over."""
        absent = sorted(each for each in self._skipped if not first < each <= last)
        if absent:
            _log.warning(
                "--skip-record has no effect on %s: records %d to %d were done again",
                ", ".join(map(str, absent)), first + 1, last,
            )  # fmt: skip
        return len(absent) < len(self._skipped)

    def _apply(self, number: int, record: Record, rows: pa.RecordBatch | None) -> Any:
        """Do what a record says, unless its producer has sent it before; the same when it is done again. An error has
        changed nothing."""
        self.wall.at, self.done = record.told["at"], number
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
                self.engine.push(record.told["stream"], batch)
                return batch.num_rows
            case "take":
                return self.roster.take(self.engine, record, self._replay)
            case "load":
                batch = read_table(record.body) if rows is None else rows
                self.engine.load(record.told["table"], batch)
                return batch.num_rows
            case "execute":
                return self._stated(lambda: self.roster.execute(self.engine, record.told["sql"], number))
            case "script":
                return self._stated(
                    lambda: self.roster.follow_script(self.engine, record.told["sql"], number)
                )
            case "advance":
                until = record.told["until"]
                self.until = until if self.until is None else max(self.until, until)
                return None
        raise Unapplied(
            f"record {number} of the log asks for '{record.do}', which this version does not know"
        )

    def _stated(self, work: Callable[[], Any]) -> Any:
        """What statements give; streams and tables may be others then."""
        found = work()
        self.streams, self.tables = self.engine.streams, self.engine.tables
        return found

    def _pass_over(self, number: int, record: Record) -> None:
        """Go on as if a record had been applied: its producer and its source have what follows it in the log, too."""
        self.wall.at, self.done = record.told["at"], number
        with suppress(MuntinError):
            if record.once is not None and not self.producers.has(record.once):
                self.producers.add(record.once)
        if record.do == "take" and (feed := self.roster.feeds.get(record.told["stream"])) is not None:
            with suppress(MuntinError):
                feed.move([Range(*each) for each in record.told["ranges"]])
        told = {name: value for name, value in record.told.items() if name not in ("at", "last")}
        _log.warning(
            "record %d of the log (%s, %d bytes) is passed over (--skip-record), and what it says is lost: %s",
            number, record.do, len(record.body), json.dumps(told)[:_SHOWN],
        )  # fmt: skip


def _unapplied(number: int, what: str, error: Exception) -> Unapplied:
    why = str(error) if isinstance(error, MuntinError) else f"{type(error).__name__}: {error}"
    instead = f"a start with --skip-record {number} goes on without it"
    return Unapplied(f"record {number} of the log {what}: {why.partition(chr(10))[0]}; {instead}")
