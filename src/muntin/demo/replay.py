"""The demo itself: register the queries, push the stream, advance, show, sum up."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Full, Queue
from threading import Event, Thread, current_thread, main_thread

import pyarrow as pa

from muntin.demo.display import AlertWatch, Display, Progress, plan_lines, text_table
from muntin.engine import Engine


@dataclass(frozen=True)
class Source:
    """`watched` names the queries whose newly qualifying keys are shown as alerts, `shown` those
    whose answers close the demo. `create_statement` declares the stream and the `tables`, whose rows these are."""

    stream: str
    title: str
    create_statement: str
    queries: dict[str, str]
    batches: Iterator[pa.RecordBatch]
    watched: tuple[str, ...]
    shown: tuple[str, ...]
    tables: dict[str, pa.Table] = field(default_factory=dict)


def open_source(name: str, queries: int, seed: int, events: int | None = None) -> Source:
    """The source called `name` with `queries` queries; MuntinError says how to get a missing one."""
    # Imported here because flights need an optional package.
    if name == "flights":
        from muntin.demo.flights import flight_source

        return flight_source(queries, seed, events)
    from muntin.demo.trades import trade_source

    return trade_source(queries, seed, events)


AHEAD = 4  # batches drawn before they are asked for
THREADS = min(2, os.cpu_count() or 1)  # that share the work of a batch; more would have too little to do


def play(source: Source, display: Display, seconds: float, started: float) -> Progress:
    """Replay `source` for up to `seconds` after its first batch, whose time may go into compiling
    kernels; `started` is the `time.perf_counter()` of the command."""
    engine = Engine(threads=THREADS)
    progress = Progress(queries=len(source.queries))
    watch = AlertWatch(tuple(name for name in source.watched if name in source.queries))
    display.say(f"muntin demo: stream '{source.stream}', {source.title}")
    _register(engine, source, display)
    with _interrupt() as stop, _ahead(source.batches) as batches:
        begun = time.perf_counter()
        for batch in batches:
            _step(engine, source, batch, progress, watch, display, begun, started)
            if stop.is_set() or progress.elapsed - progress.warm_seconds >= seconds:
                break
    display.close()
    _sum_up(engine, source, progress, display, interrupted=stop.is_set())
    return progress


def _register(engine: Engine, source: Source, display: Display) -> None:
    before = time.perf_counter()
    engine.execute(source.create_statement)
    for name, rows in source.tables.items():
        engine.load(name, rows)
        display.say(f"table '{name}': {rows.num_rows:,} rows")
    engine.register_many(source.queries)
    display.say(f"{len(source.queries):,} queries registered in {time.perf_counter() - before:.1f} s")
    for line in plan_lines(engine):
        display.say(line)


def _step(
    engine: Engine, source: Source, batch: pa.RecordBatch, progress: Progress, watch: AlertWatch,
    display: Display, begun: float, started: float,
) -> None:  # fmt: skip
    """Push one batch, collect what closed, show it."""
    engine.push(source.stream, batch)
    progress.events += batch.num_rows
    if progress.first_answer is None:
        _first_answer(engine, source, progress, display, started)
    alerts, more = [], True
    while more:
        answers = engine.advance(together=True)  # tables by schema: a thousand small ones would take longer
        progress.answers += sum(table.num_rows for table in answers)
        alerts += watch.notice(answers)
        more = answers.more
    progress.elapsed = time.perf_counter() - begun
    if not progress.warm_seconds:
        progress.warm_seconds, progress.warm_events = progress.elapsed, progress.events
    _read_stats(engine, source, progress)
    progress.alerts = watch.count
    display.show(progress, alerts)


def _first_answer(
    engine: Engine, source: Source, progress: Progress, display: Display, started: float
) -> None:
    """A look-up needs no closed window: it answers as soon as there are events."""
    name = next(iter(source.queries))
    answer = engine.lookup(name)
    progress.first_answer = time.perf_counter() - started
    display.say(f"first answer {progress.first_answer:.1f} s after the command, from '{name}':")
    display.say(text_table(answer, 1))


def _read_stats(engine: Engine, source: Source, progress: Progress) -> None:
    stats = engine.stats(queries=False)["streams"][source.stream]
    progress.late = stats["late"]
    progress.state_bytes = stats["bytes"]
    progress.watermark = stats["watermark"]
    progress.event_time = stats["greatest"]


def _sum_up(engine: Engine, source: Source, progress: Progress, display: Display, interrupted: bool) -> None:
    for name in source.shown:
        if name in source.queries:
            answer = engine.lookup(name)
            display.say(f"\n{name}: {answer.num_rows:,} answers now")
            if answer.num_rows:
                display.say(text_table(answer))
    display.say("\nsummary (interrupted)" if interrupted else "\nsummary")
    for label, value in progress.summary():
        display.say(f"  {label:<14}{value}")


@contextmanager
def _interrupt() -> Iterator[Event]:
    """Turns the first Ctrl-C into a request to stop between two batches, when the state is whole."""
    stop = Event()
    if current_thread() is not main_thread():
        yield stop
        return

    def request(number: int, frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second one stops at once

    before = signal.signal(signal.SIGINT, request)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """The same batches, drawn by a thread so that the engine does not wait for the generator."""
    queue: Queue[pa.RecordBatch | BaseException | None] = Queue(AHEAD)
    done = Event()

    def put(item: pa.RecordBatch | BaseException | None) -> None:
        while not done.is_set():
            try:
                return queue.put(item, timeout=0.1)
            except Full:
                continue

    def draw() -> None:
        try:
            for batch in batches:
                put(batch)
                if done.is_set():
                    return
            put(None)
        except BaseException as error:  # raised again where the batches are waited for
            put(error)

    def drawn() -> Iterator[pa.RecordBatch]:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    drawer = Thread(target=draw, name="muntin-demo-source", daemon=True)
    drawer.start()
    try:
        yield drawn()
    finally:
        done.set()
        drawer.join()
