"""When the next checkpoint is due, and how the last ones went.

One that fails is tried again after a while. Until one succeeds, the log keeps all that a start needs.
"""

from __future__ import annotations

import logging
import time

from muntin.serve.settings import Settings

_log = logging.getLogger("muntin.serve")
_AGAIN = 10.0  # seconds after which a checkpoint that failed is tried again


class Keeping:
    """Times and counts of checkpoints.

    >>> keeping = Keeping(Settings(checkpoint_bytes=100), record=7, at=None)
    >>> keeping.is_due(7, 1_000), keeping.is_due(8, 50), keeping.is_due(8, 1_000)
    (False, False, True)
    >>> keeping.failed("no space left")
    >>> keeping.is_due(8, 1_000), keeping.failures
    (False, 1)
    """

    def __init__(self, settings: Settings, record: int, at: float | None):
        self.record = record  # the last one that a checkpoint knows of
        self.at = at  # when that was written, by the clock on the wall; None if there is none
        self.failures = 0
        self._settings = settings
        self._logged = 0  # bytes, by then
        self._not_before = 0.0
        self._next = time.monotonic() + settings.checkpoint_seconds

    @property
    def seconds_left(self) -> float:
        """Until the next one is due, if anything has changed."""
        return self._next - time.monotonic()

    def is_due(self, done: int, written: int) -> bool:
        """Whether it is time, as of a record and of the bytes of the log."""
        if done == self.record or time.monotonic() < self._not_before:
            return False
        return self.seconds_left <= 0 or written - self._logged > self._settings.checkpoint_bytes

    def kept(self, record: int, written: int) -> None:
        """A checkpoint has been written."""
        self.record, self.at, self._logged = record, time.time(), written
        self._next, self._not_before = time.monotonic() + self._settings.checkpoint_seconds, 0.0

    def failed(self, error: object) -> None:
        """None has been written."""
        self.failures += 1
        self._not_before = time.monotonic() + min(_AGAIN, self._settings.checkpoint_seconds)
        self._next = self._not_before
        _log.error("no checkpoint was written, and one is tried again: %s", error)
