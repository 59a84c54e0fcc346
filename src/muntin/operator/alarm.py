"""The alarm: a warning that nearly all events of a stream are left out, which one event with a wrong time can cause."""

from __future__ import annotations

import warnings

import numpy as np

from muntin.arrays import LONG_AGO
from muntin.operator.clock import Clock

_MANY = 100  # events that are judged together, from one batch or from several
_NEARLY_ALL = 0.9


class Alarm:
    """It is raised once, and again only after most events have been admitted in between."""

    def __init__(self) -> None:
        self._admitted = self._late = self._ahead = 0  # since the last judgement
        self._is_raised = False

    def note(self, stream: str, clock: Clock, admitted: int, late: int, ahead: int) -> None:
        """Count the events of a batch, and warn if it is time to."""
        self._admitted, self._late, self._ahead = (
            self._admitted + admitted, self._late + late, self._ahead + ahead,
        )  # fmt: skip
        total = self._admitted + self._late + self._ahead
        if total < _MANY:
            return
        left_out = max(self._late, self._ahead)
        if left_out >= _NEARLY_ALL * total:
            if not self._is_raised:
                text = _late_text if self._late == left_out else _ahead_text
                told = f"{left_out:,} of the last {total:,} events of stream '{stream}' {text(stream, clock)}"
                warnings.warn(told, RuntimeWarning, stacklevel=6)
            self._is_raised = True
        elif self._admitted > total // 2:
            self._is_raised = False
        self._admitted = self._late = self._ahead = 0


def _late_text(stream: str, clock: Clock) -> str:
    watermark = clock.watermark
    assert watermark is not None
    if watermark == clock.promised:
        cause = "advance(until=…), or a rewind, has said that time stands there"
    else:
        cause = f"an event at {_shown(clock.greatest)} has set it"
    return (
        f"were late, and in no answer: its watermark stands at {_shown(watermark)}, since {cause}. If that is wrong, "
        f"set the stream back with engine.rewind('{stream}', to) or REWIND STREAM {stream} TO '…'; "
        "CREATE STREAM … AHEAD 1 HOUR leaves events out whose time lies too far ahead"
    )


def _ahead_text(stream: str, clock: Clock) -> str:
    seen = (
        "no event has been admitted"
        if clock.greatest is None
        else f"its latest is at {_shown(clock.greatest)}"
    )
    return (
        f"were ahead, and in no answer: their times lie beyond its AHEAD, and {seen}. Look at the column that has the "
        "time, its unit and its zone, and at the clock of this machine, or declare a longer AHEAD"
    )


def _shown(at: int | None) -> np.datetime64:
    return np.datetime64(LONG_AGO if at is None else at, "us")
