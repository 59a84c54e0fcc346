"""Whether the machine is in peace: a result is recorded only if the machine did nothing else, before, during and after.

Over the whole run two things are looked at: cores that other processes used, which is what all cores did less what this
process and all it started did; and time that the hypervisor gave to somebody else (steal). For a second before and
after it, also how long a fixed loop takes: beside the CPU time it gets, which tells of neighbours on any processor, and
beside the fastest that the results of the same processor have noted, if there are any.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine import cpu_model
from benchmarks.measure import RESULTS
from benchmarks.process_tree import CpuMeter, cpu_seconds

MOST_BY_OTHERS = 0.25  # of one core
MOST_STEAL = 0.02  # of all cores
MOST_PACE = 1.25  # times the fastest loop of the same processor
MOST_WAITING = 1.25  # times the CPU time that the loop gets
_SHORTEST = 1.0  # seconds; /proc/stat counts in hundredths of them
_STAT = Path("/proc/stat")


class BusyError(Exception):
    """The machine does something else, too: a measurement would say little of muntin."""


@dataclass(frozen=True)
class Peace:
    """What was seen of the machine in a second or two, while this process waited or ran its loop."""

    others: float  # cores that other processes used
    steal: float  # part of the time of all cores
    loop: float  # milliseconds of the calibration loop, median
    waiting: float = 1.0  # times the CPU time that the loop got

    def disturbances(self, fastest: float | None) -> list[str]:
        """What speaks against a measurement.

        >>> Peace(others=0.02, steal=0.0, loop=21.0).disturbances(fastest=20.0)
        []
        >>> Peace(others=1.4, steal=0.0, loop=40.0).disturbances(fastest=20.0)
        ['other processes use 1.40 cores', 'a fixed loop takes 2.0 times as long as it did in peace']
        """
        found = []
        if self.others > MOST_BY_OTHERS:
            found.append(f"other processes use {self.others:.2f} cores")
        if self.steal > MOST_STEAL:
            found.append(f"the hypervisor takes {self.steal:.0%} of the time")
        if self.waiting > MOST_WAITING:
            found.append(f"a fixed loop takes {self.waiting:.1f} times the CPU time that it gets")
        if fastest is not None and self.loop > MOST_PACE * fastest:
            found.append(f"a fixed loop takes {self.loop / fastest:.1f} times as long as it did in peace")
        return found


@dataclass(frozen=True)
class Meanwhile:
    """What was seen of the machine over a whole run, in the mean."""

    others: float  # cores that other processes used
    steal: float  # part of the time of all cores

    def disturbances(self) -> list[str]:
        """What speaks against the measurement.

        >>> Meanwhile(others=0.1, steal=0.0).disturbances(), Meanwhile(others=0.5, steal=0.0).disturbances()
        ([], ['other processes used 0.50 cores meanwhile'])
        """
        found = []
        if self.others > MOST_BY_OTHERS:
            found.append(f"other processes used {self.others:.2f} cores meanwhile")
        if self.steal > MOST_STEAL:
            found.append(f"the hypervisor took {self.steal:.0%} of the time meanwhile")
        return found


class Span:
    """A stretch of time, over which cores are counted that this process and what it started did not use."""

    def __init__(self) -> None:
        self._began, self._ours, self._all = time.perf_counter(), cpu_seconds(), _core_seconds()
        self._meter = CpuMeter(every=2.0)
        self._meter.__enter__()

    def end(self) -> Meanwhile:
        """What was seen since the span began. Of what children used, the larger of two counts is taken: parents may not
        learn it, and looks now and then may miss it."""
        self._meter.__exit__()
        ours = max(cpu_seconds() - self._ours, self._meter.seconds)
        passed = max(time.perf_counter() - self._began, _SHORTEST)
        busy, steal = (now - then for now, then in zip(_core_seconds(), self._all, strict=True))
        return Meanwhile(
            round(max(0.0, (busy - ours) / passed), 2), round(steal / passed / (os.cpu_count() or 1), 3)
        )


class Watch:
    """What the machine does besides one benchmark: looked at before it, all the while, and after it."""

    def __init__(self, refuses: bool = True, results: Path = RESULTS) -> None:
        self._refuses = refuses
        self._fastest = fastest_loop(cpu_model(), results)
        self.before = observe()
        self._judge(self.before.disturbances(self._fastest), "the machine is busy")
        self._span = Span()

    def end(self) -> dict[str, object]:
        """What a result tells of it; an error if the machine was disturbed meanwhile."""
        meanwhile, after = self._span.end(), observe()
        found = meanwhile.disturbances() + after.disturbances(self._fastest)
        self._judge(found, "the machine became busy while the benchmark ran")
        return {
            "before": asdict(self.before),
            "meanwhile": asdict(meanwhile),
            "after": asdict(after),
            "fastest": self._fastest,
            "disturbed": list(dict.fromkeys(self.before.disturbances(self._fastest) + found)),
        }

    def _judge(self, found: list[str], opening: str) -> None:
        if found and self._refuses:
            raise BusyError(
                f"{opening}: {'; '.join(found)}. Nothing is recorded; --busy records all the same, and says so."
            )


def observe(seconds: float = 1.0) -> Peace:
    """Wait so long, then run the loop, and see what others did meanwhile."""
    began, ours, all_cores = time.perf_counter(), _own_seconds(), _core_seconds()
    time.sleep(seconds)
    loop, waiting = _loop_milliseconds()
    passed = time.perf_counter() - began
    busy, steal = (after - before for after, before in zip(_core_seconds(), all_cores, strict=True))
    others = max(0.0, (busy - (_own_seconds() - ours)) / passed)
    return Peace(
        round(others, 2), round(steal / passed / (os.cpu_count() or 1), 3), round(loop, 2), round(waiting, 2)
    )


def fastest_loop(cpu: str, results: Path = RESULTS) -> float | None:
    """The least milliseconds that results of this processor have noted."""
    machines = [json.loads(path.read_text())["machine"] for path in results.rglob("*.json")]
    noted = [
        seen["loop"]
        for machine in machines
        if machine["cpu"] == cpu and machine.get("peace")
        for seen in (machine["peace"]["before"], machine["peace"]["after"])
    ]
    return min(noted, default=None)


def _loop_milliseconds() -> tuple[float, float]:
    """Of a sort, sums in cache, and a loop of Python: what benchmarks do. And how many times the CPU time that is."""
    values = np.random.default_rng(7).random(100_000)
    times = []
    all_began, worked = time.perf_counter(), time.process_time()
    for _ in range(15):
        began = time.perf_counter()
        np.sort(values)
        for _ in range(40):
            values.sum()
        sum(i * i for i in range(20_000))
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times), (time.perf_counter() - all_began) / (time.process_time() - worked)


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system


def _core_seconds() -> tuple[float, float]:
    """Of all cores since the machine started: at work (without steal), and stolen. 0 where the kernel does not tell."""
    try:
        ticks = [int(field) for field in _STAT.read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0
    user, nice, system, _, _, interrupts, soft, steal = ticks
    second = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + interrupts + soft) / second, steal / second
