"""The window clause: every way to write one, and the window it means."""

from __future__ import annotations

import pytest

from muntin.sql import parse_query
from muntin.window import Window

MS, SECOND, MINUTE, HOUR, DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000

WINDOWS = [
    ("[RANGE 300 SECONDS]", Window("time", 300 * SECOND)),
    ("[RANGE 1 MICROSECOND]", Window("time", 1)),
    ("[RANGE 5 MILLISECONDS]", Window("time", 5 * MS)),
    ("[RANGE 1 HOUR SLIDE 1 MINUTE]", Window("time", HOUR, slide=MINUTE)),
    ("[RANGE 2 MINUTES TO 1 MINUTE]", Window("time", 2 * MINUTE, MINUTE)),
    ("[RANGE 2 MINUTES TO 2 MINUTES]", Window("time", 2 * MINUTE, 2 * MINUTE)),
    ("[RANGE 2 DAYS TO 1 DAY SLIDE 1 HOUR]", Window("time", 2 * DAY, DAY, HOUR)),
    ("[RANGE 1 WEEK]", Window("time", 7 * DAY)),
    ("[RANGE 1.5 SECONDS]", Window("time", 1_500_000)),
    ("[RANGE .5 SECOND]", Window("time", 500_000)),
    ("[RANGE 1 HOUR 30 MINUTES]", Window("time", 90 * MINUTE)),
    ("[RANGE INTERVAL '5 minutes' SLIDE INTERVAL '1' MINUTE]", Window("time", 5 * MINUTE, slide=MINUTE)),
    ("[RANGE INTERVAL 5 MINUTE]", Window("time", 5 * MINUTE)),
    ("[RANGE INTERVAL '1 hour 30 minutes']", Window("time", 90 * MINUTE)),
    ("[ range 5 minutes\n slide 1 Minute ]", Window("time", 5 * MINUTE, slide=MINUTE)),
    ("[RANGE /* long */ 5 MINUTES -- indeed\n]", Window("time", 5 * MINUTE)),
    ("[ROWS 100]", Window("rows", 100)),
    ("[ROWS 10000 TO 500]", Window("rows", 10_000, 500)),
    ("[ROWS 100 SLIDE 10]", Window("rows", 100, slide=10)),
    ("[ROWS 100 TO 5 SLIDE 10]", Window("rows", 100, 5, 10)),
]


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_after_from(text, window, streams):
    query = parse_query(f"SELECT SUM(shares) FROM trades {text}", streams)
    assert query.window == window
    assert query.calls[0].window == window


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_after_over(text, window, streams):
    query = parse_query(f"SELECT SUM(shares) FILTER (WHERE side = 'ask') OVER {text} FROM trades", streams)
    assert query.window is None
    assert query.calls[0].window == window
    assert query.calls[0].filter.sql == "side = 'ask'"


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_a_window_reads_its_own_text(text, window, streams):
    assert parse_query(f"SELECT SUM(shares) FROM trades {window}", streams).window == window


def test_own_window_and_the_one_after_from(streams):
    query = parse_query(
        "SELECT SUM(shares), SUM(shares) OVER [ROWS 5], SUM(shares) OVER [RANGE 1 DAY] "
        "FROM trades [RANGE 1 DAY]",
        streams,
    )
    assert [str(call.window) for call in query.calls] == ["[RANGE 1 DAY]", "[ROWS 5]"]
    assert [output.expression.sql for output in query.outputs] == ["$0", "$1", "$0"]


def test_slide_comes_from_over_when_from_has_no_window(streams):
    query = parse_query(
        "SELECT MAX(price) OVER [RANGE 1 HOUR SLIDE 1 MINUTE] - MIN(price) OVER [RANGE 1 DAY SLIDE 1 MINUTE] "
        "FROM trades",
        streams,
    )
    assert query.slide == MINUTE
    assert not query.moves_by_events


def test_rows_with_slide_move_by_rows(streams):
    query = parse_query("SELECT MAX(price), MIN(price) OVER [ROWS 5] FROM trades [ROWS 9 SLIDE 3]", streams)
    assert query.moves_by_events
    assert query.slide == 0
