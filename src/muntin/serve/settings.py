"""What a service is started with, and why it may refuse a change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from muntin.errors import MuntinError


@dataclass(frozen=True)
class Settings:
    """What a service is started with."""

    checkpoint_seconds: float = 60.0  # between two checkpoints, if anything has changed
    checkpoint_bytes: int = 2**30  # of the log since the last one, so that a start has no more to do again
    answers_seconds: float = 3_600.0  # for which answers are kept to be read again
    waiting: int = 1_000  # changes that may wait for the writer; more are refused
    waiting_bytes: int = 256 * 2**20  # of them
    folders: tuple[Path, ...] = ()  # that files of BACKFILL, sources and sinks must lie in
    threads: int = 1  # that share the work of large batches and answers
    instants: int = 1_000_000_000  # at which windows may close by one change; 0: any number
    skips_lost: bool = False  # go on without messages that a source has no more
    skipped: frozenset[int] = frozenset()  # records of the log that a start passes over


class Busy(MuntinError):
    """More changes wait for their turn than the service holds: try again."""


class Stopped(MuntinError):
    """The service takes no more changes."""


class TooMuchOwed(MuntinError):
    """A change by which windows would close at more instants than they may."""


class TooSlow(MuntinError):
    """A look-up that took longer than it may."""

    def __init__(self, seconds: float):
        super().__init__(f"the look-up took longer than {seconds:g} seconds: ask for less")
