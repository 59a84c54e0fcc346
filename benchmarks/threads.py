"""Two threads in one engine, beside two engines on a thread each: keyed push, and every answer per key."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import keyed_answers, keyed_push
from benchmarks.measure import RUNS, Column, Result, Timing, measure_side_by_side

KEYS = (10_000, 1_000_000)
COUNTS = (8, 64, 1_000)
COLUMNS = [
    Column("workload", "workload"), Column("one", "1 thread, events/s", ",.0f"),
    Column("two", "2 threads", ",.0f"), Column("engines", "2 engines, both together", ",.0f"),
    Column("gain", "2 threads / 1", ".2f"), Column("ratio", "2 threads / 2 engines", ".2f"),
    Column("spread", "spread", ".0%"),
]  # fmt: skip
NOTES = f"""\
By the clock, on a machine with two cores. *Push*: the batches of `keyed_push` with one window and BIGINT keys.
*Answers*: the seconds of `keyed_answers`, each pushed and then answered for all keys by every query that is due. *2
engines* are independent of each other, each on a thread of its own with all of the workload, so that they take in twice
as many events; the Python of both takes turns, as it does in one engine. All take turns in {RUNS} rounds; ratios are
medians over these. Answers of all are compared."""

Action = Callable[[int], object]


def run(quick: bool) -> Result:
    """Measure every workload."""
    keys = (10_000, 20_000) if quick else KEYS
    rows = [measure_push(each, quick) for each in keys]
    rows += [measure_answers(count, quick) for count in (COUNTS[:2] if quick else COUNTS)]
    return Result("threads", "Two threads", " ".join(NOTES.split()), COLUMNS, rows, {"runs": RUNS})


def measure_push(keys: int, quick: bool) -> dict[str, Any]:
    """One row: batches of a million events."""
    fill = 2 if quick else 3 * keyed_push.LONGEST * keyed_push.RATE // keyed_push.BATCH_ROWS + 1
    runs = 3 if quick else RUNS
    batches = [keyed_push.make_batch(number, "BIGINT", keys) for number in range(fill + runs + 1)]
    engines = [keyed_push.engine_of("BIGINT", 1, threads) for threads in (1, 2, 1, 1)]
    for engine in engines:
        for batch in batches[:fill]:
            engine.push("s", batch)
    pushes: list[Action] = [
        lambda run, engine=engine: engine.push("s", batches[fill + run]) for engine in engines
    ]
    timings = measure_side_by_side([*pushes[:2], beside(pushes[2:])], runs)
    keyed_push.check_answers(engines[0], batches, keys)
    expected = engines[0].lookup("q0")
    assert all(engine.lookup("q0").equals(expected) for engine in engines[1:])
    return row(f"push, {keys:,} keys", keyed_push.BATCH_ROWS, timings)


def measure_answers(count: int, quick: bool) -> dict[str, Any]:
    """One row: seconds that are pushed and answered."""
    runs = 3 if quick else RUNS
    seconds, fill = (10, 20) if quick else (max(4, keyed_answers.MOST // count), keyed_answers.FILL)
    batches = [keyed_answers.make_batch(second) for second in range(fill + (runs + 1) * seconds)]
    specs = keyed_answers.specs_of(count)
    runners = [keyed_answers.Muntin(specs, threads) for threads in (1, 2, 1, 1)]
    for runner in runners:
        runner.fill(batches[:fill])
    plays: list[Action] = [
        lambda run, runner=runner: keyed_answers.play(runner, batches, fill + run * seconds, seconds)
        for runner in runners
    ]
    timings = measure_side_by_side([*plays[:2], beside(plays[2:])], runs)
    expected = runners[0].answers
    for runner in runners[1:]:
        assert runner.answers.keys() == expected.keys()
        assert all(table.equals(expected[name]) for name, table in runner.answers.items())
    return row(f"answers of {count:,} queries", seconds * keyed_answers.RATE, timings)


def beside(actions: Sequence[Action]) -> Action:
    """All of them at once, on a thread each."""

    def act(run: int) -> None:
        threads = [threading.Thread(target=partial(action, run)) for action in actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


def row(workload: str, events: int, timings: Sequence[Timing]) -> dict[str, Any]:
    one, two, engines = timings
    return {
        "workload": workload,
        "one": events / one.median,
        "two": events / two.median,
        "engines": 2 * events / engines.median,
        "gain": by_clock(one, two),
        "ratio": by_clock(engines, two) / 2,
        "spread": two.spread,
    }


def by_clock(slow: Timing, fast: Timing) -> float:
    """How many times as fast, round by round."""
    return statistics.median(a / b for a, b in zip(slow.seconds, fast.seconds, strict=True))
