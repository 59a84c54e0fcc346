"""Sinks at work: a thread for each, which reads answers of its query from where it stands and delivers them.

    answers kept on disk --from its place on--> delivery --at least once--> Kafka, files, an HTTP hook

A sink moves its place on only when all before it has been delivered. The place stands in the checkpoint. So after a
crash some answers are delivered again, with the same ids. A sink that fails tries again, ever more slowly, and never
gives up; nobody waits for it. What it has not delivered stays on disk until it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from muntin.errors import MissingPackage
from muntin.serve.file_sink import FileOutlet
from muntin.serve.hook_sink import HookOutlet
from muntin.serve.options import Given
from muntin.serve.portion import Part, PortionPlace
from muntin.view.folders import Folders

if TYPE_CHECKING:
    from muntin.serve.service import Service

_log = logging.getLogger("muntin.serve")
_WAITS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds before it is tried again, one after the other
_LOOK = 0.5  # seconds after which a sink looks whether something is due


@dataclass(frozen=True, eq=False)
class Drain:
    """A sink as the log knows it."""

    query: str
    options: Given
    since: PortionPlace  # the answers behind it are delivered

    def note(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {"query": self.query, "options": self.options, "since": list(self.since)}


class Outlet(Protocol):
    """Where answers go."""

    most_bytes: int  # that are held before they are sent
    most_seconds: float  # for which answers are held

    def send(self, parts: Sequence[tuple[PortionPlace, Part]], stopping: threading.Event) -> None:
        """All of them; an error if some may not have arrived."""

    def close(self) -> None:
        """Let go of it."""


def open_outlet(name: str, given: Given, folders: Folders) -> Outlet:
    """What a sink sends to."""
    if given["sink"] == "files":
        return FileOutlet(name, given, folders)
    if given["sink"] == "http":
        return HookOutlet(name, given, folders)
    try:
        from muntin.serve.kafka_sink import KafkaOutlet
    except ImportError:
        raise MissingPackage("a Kafka sink needs confluent-kafka: pip install 'muntin[serve]'") from None
    return KafkaOutlet(given, folders)


class Delivery:
    """The thread of one sink."""

    def __init__(self, service: Service, name: str, drain: Drain, place: PortionPlace):
        self.name, self.drain = name, drain
        self.place = place  # all answers up to here have been delivered
        self.delivered = 0  # answers since the start
        self.failures = 0  # attempts since the start
        self.error: str | None = None  # what is wrong now
        self.is_running = True
        self._last: int | None = None  # the number of the answer that was delivered last, once it is known
        self._service = service
        # answers that its query had given by now: the writer, who gives them, is the one who starts sinks
        self._given = service.answers.numbers.get(service.incarnation(drain.query) or 0, 0)
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"muntin sink {name}", daemon=True)
        service.answers.watch(self._woken.set)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end, and do not wait."""
        self._stopping.set()
        self._woken.set()
        self._service.answers.unwatch(self._woken.set)

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def told(self) -> dict[str, Any]:
        """How it fares, as JSON."""
        return {
            "sink": self.drain.options["sink"], "query": self.drain.query, "running": self.is_running,
            "delivered": self.delivered, "waiting": self.waiting, "failures": self.failures, "error": self.error,
        }  # fmt: skip

    @property
    def waiting(self) -> int | None:
        """Answers that are not delivered yet; None before it has looked what they are."""
        incarnation = self._service.incarnation(self.drain.query)
        if self._last is None or incarnation is None:
            return None
        return max(0, self._service.answers.numbers.get(incarnation, 0) - self._last)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            before = self.delivered
            try:
                if self._last is None:
                    self._last = self._last_before()
                outlet = open_outlet(self.name, self.drain.options, self._service.folders)
                try:
                    self._deliver(outlet)
                finally:
                    outlet.close()
            except Exception as error:  # of whatever it delivers to
                tries = 1 if self.delivered > before else tries + 1
                self.failures += 1
                self.error = str(error) or type(error).__name__
                wait = _WAITS[min(tries, len(_WAITS)) - 1]
                if not self._stopping.is_set():
                    _log.warning("sink '%s': %s; again in %.1f s", self.name, self.error, wait)
                self._stopping.wait(wait)
        self.is_running = False

    def _last_before(self) -> int:
        """The number of the last answer up to its place: what waits is known before anything is delivered."""
        for _, part in self._service.answers.behind(self.place).next(self.drain.query):
            if part is not None:
                return part.first - 1
        return self._given

    def _deliver(self, outlet: Outlet) -> None:
        """Send what is there and what comes, in portions."""
        answers = self._service.answers.behind(self.place)
        held = list[tuple[PortionPlace, Part]]()
        size, since = 0, 0.0
        while True:
            self._woken.clear()
            is_stopping = self._stopping.is_set()
            for place, part in answers.next(self.drain.query):
                if part is not None:
                    since = since if held else time.monotonic()
                    held.append((place, part))
                    size += part.table.nbytes
                elif not held:
                    self.place = place
                if size >= outlet.most_bytes:
                    self._send(outlet, held)
                    held, size = [], 0
                if self._stopping.is_set():
                    break
            if held and (is_stopping or time.monotonic() - since >= outlet.most_seconds):
                self._send(outlet, held)
                held, size = [], 0
            if is_stopping:
                return
            self._woken.wait(_LOOK)

    def _send(self, outlet: Outlet, held: list[tuple[PortionPlace, Part]]) -> None:
        outlet.send(held, self._stopping)
        self.delivered += sum(part.table.num_rows for _, part in held)
        self.error = None
        self.place, last = held[-1]
        self._last = last.first + last.table.num_rows - 1
