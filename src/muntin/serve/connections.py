"""Connections of a service: the sources and sinks that are open, as the log says there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.serve.portion import PortionPlace
from muntin.serve.sink import Delivery
from muntin.serve.source import Intake

if TYPE_CHECKING:
    from muntin.serve.script import Roster
    from muntin.serve.service import Service


class Connections:
    """Threads of sources and sinks, started and stopped as statements come."""

    def __init__(self, service: Service, delivered: dict[str, PortionPlace]):
        self._service = service
        self._delivered = delivered  # up to where sinks had come when the service was opened
        self.sources: dict[str, Intake] = {}
        self.sinks: dict[str, Delivery] = {}
        self._ended: list[Intake | Delivery] = []  # asked to end, not waited for

    def follow(self, roster: Roster) -> None:
        """Open what is new, close what is gone. It does not wait: it is the writer who calls it."""
        for name, intake in list(self.sources.items()):
            if roster.feeds.get(name) is not intake.feed:
                self._end(self.sources.pop(name))
        for name, feed in roster.feeds.items():
            if name not in self.sources:
                self.sources[name] = Intake(self._service, name, feed)
        for name, delivery in list(self.sinks.items()):
            if roster.sinks.get(name) is not delivery.drain:
                self._delivered[name] = delivery.place
                self._end(self.sinks.pop(name))
        for gone in self._delivered.keys() - roster.sinks.keys():
            del self._delivered[gone]
        for name, drain in roster.sinks.items():
            if name not in self.sinks:
                place = max(drain.since, self._delivered.get(name, drain.since))
                self.sinks[name] = Delivery(self._service, name, drain, place)
        self._ended = [each for each in self._ended if each.is_running]

    def delivered(self) -> dict[str, PortionPlace]:
        """Up to where each sink has come."""
        return self._delivered | {name: each.place for name, each in self.sinks.items()}

    def stop_sources(self) -> None:
        """End them, once what they handed over has been done."""
        self._stop(self.sources)

    def stop_sinks(self) -> None:
        """End them; what they have not delivered waits for the next start."""
        self._stop(self.sinks)

    def told(self) -> dict[str, dict[str, Any]]:
        """How all of them fare, as JSON."""
        return {
            "sources": {name: each.told() for name, each in list(self.sources.items())},
            "sinks": {name: each.told() for name, each in list(self.sinks.items())},
        }

    def _end(self, each: Intake | Delivery) -> None:
        each.stop()
        self._ended.append(each)

    def _stop(self, some: dict[str, Any]) -> None:
        for each in some.values():
            each.stop()
        for each in some.values():
            each.join()
