"""Windows that close by a change: their answers, given out portion by portion.

    record 17 --advance--> portion 17.0, 17.1, … --> the log of answers, and whoever follows them

A disk may be full when they are to be kept. Then they wait, in their order and under their numbers, and no change is
made before they have been kept: the engine has given them out, and memory would fill. Should the process end
meanwhile, the records of the log give the same answers again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from muntin.errors import MuntinError
from muntin.serve.answers import KeptAnswers
from muntin.serve.applied import Applied, Unapplied
from muntin.serve.look_ups import LookUps
from muntin.shard.emit.portion import Answers, portions

_log = logging.getLogger("muntin.serve")


class Closing:
    """What closes, for the writer and for a start."""

    def __init__(self, applied: Applied, answers: KeptAnswers, look_ups: LookUps):
        self._applied, self._answers, self._look_ups = applied, answers, look_ups
        self._left: Iterator[tuple[int, Answers]] | None = None  # of the record that was done last
        self.failures = 0  # of the engine: it owes these windows, and gives them by a later change

    @property
    def is_behind(self) -> bool:
        """Whether answers wait to be kept."""
        return self._left is not None or self._answers.owes

    def close(self) -> None:
        """Give out what closed by the records that were applied; a LogError if it cannot be kept now."""
        until, self._applied.until = self._applied.until, None
        self._left = enumerate(portions(self._applied.engine, until))
        self.go_on()

    def go_on(self) -> None:
        """The same, from where it stopped."""
        if self._answers.owes:
            self._answers.keep_owed()
            _log.info("answers can be kept again, and changes are taken")
        while self._left is not None and (found := self._next(self._left)) is not None:
            portion, given = found
            place = self._applied.done, portion
            self._answers.take(place, self._applied.wall.at, given, self._applied.roster.incarnations)
            self._look_ups.answer()
        self._left = None

    def _next(self, left: Iterator[tuple[int, Answers]]) -> tuple[int, Answers] | None:
        try:
            return next(left, None)
        except MuntinError as error:  # such as that of a function of the user's own
            self.failures += 1
            _log.error("windows stay open that record %d would close: %s", self._applied.done, error)
            return None
        except Exception as error:
            until = f"windows up to record {self._applied.done} of the log cannot be closed"
            raise Unapplied(f"{until}: {type(error).__name__}: {error}") from error
