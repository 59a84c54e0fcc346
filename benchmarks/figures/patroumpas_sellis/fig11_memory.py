"""Figure 11: bytes of state for windows of the medium class, shared and isolated, by the number of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.page import Record, short
from benchmarks.figures.patroumpas_sellis.connections import SECOND, Batch, connections, together
from benchmarks.figures.patroumpas_sellis.standing import Standing
from benchmarks.figures.patroumpas_sellis.window_classes import COUNTS, LONGEST, draw_windows
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.plan.chain_cover import chain_cover
from muntin.plan.window_chain import Spec, WindowChain

RATES, QUICK_RATES = {"slow": 100, "fast": 10_000}, {"slow": 10, "fast": 50}
SECONDS = 3 * LONGEST  # so that all windows are full, and what nobody needs is gone
ALONE, QUICK_ALONE = 60, 1  # windows that get an engine each, to see what a tuple takes
CHECKED = 100  # answers of an engine of events: one by one, for they are dear
TUPLE = 16  # bytes: a timestamp and a number
NAMES = {"isolated": "isolated", "chains": "a copy per chain", "ring": "one ring", "slices": "slices"}

NOTES = f"""\
SUM over windows of the medium class (slides up to 20, sizes up to {LONGEST} timestamps of a second), on a made-up trace
of connections. isolated: tuples of each window and those that wait for it to slide, counted exactly, at {TUPLE} bytes,
a timestamp and a number. chains: the same for one copy of the stream per chain of a minimum cover, as far back as
its longest window reaches. ring and slices: what `stats` says of one engine with all windows, that keeps events
(rescan, by a hint) or slices (as planned). alone: {ALONE} windows with an engine of events each, beside the count.
Answers of the engines are compared with NumPy, all of slices and {CHECKED} of events."""


def run(quick: bool) -> Result:
    """Measure both rates at every number of windows."""
    counts, rates, alone = ((20,), QUICK_RATES, QUICK_ALONE) if quick else (COUNTS, RATES, ALONE)
    rows = [row for mode, rate in rates.items() for row in measure(mode, rate, counts, alone)]
    return Result(
        name="patroumpas_sellis/ps11",
        title="State against the number of windows",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "rate"), Column("rate", "connections/s", ",d"), Column("count", "windows", ",d"),
            Column("number_of_chains", "chains", "d"), *(Column(name, label, ",d") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"seconds": SECONDS, "tuple_bytes": TUPLE, "alone": alone},
    )  # fmt: skip


def measure(mode: str, rate: int, counts: tuple[int, ...], alone: int) -> list[dict[str, Any]]:
    """The rows of a rate."""
    batches = list(together(connections(rate, 0, SECONDS, seed=11), 10))
    at = np.concatenate([batch.at for batch in batches])
    widest = kept_by([(LONGEST, 1)], batches)
    measured, counted = measure_alone(draw_windows("medium", alone, seed=1), batches, at)
    drawn, rows = draw_windows("medium", counts[-1], seed=11), []
    for count in counts:
        windows = drawn[:count]
        chains = chain_cover(windows)
        row: dict[str, Any] = {
            "mode": mode, "rate": rate, "count": count, "number_of_chains": len(chains),
            "isolated": TUPLE * sum(tuples(window, at) for window in windows),
            "chains": TUPLE * sum(tuples_of_chain(chain, at) for chain in chains),
            "ring": kept_by(windows, batches, "rescan"), "slices": kept_by(windows, batches),
            "widest": widest, "alone_measured": measured, "alone_counted": counted,
        }  # fmt: skip
        rows.append(row)
    return rows


def kept_by(windows: list[Spec], batches: list[Batch], hint: str | None = None) -> int:
    """Bytes of state of an engine with all windows, after the whole trace; its answers are checked."""
    standing = Standing(windows, hint)
    for batch in batches:
        standing.push(batch)
    standing.check(batches, SECONDS, sample=None if hint is None else CHECKED)
    return standing.nbytes


def measure_alone(windows: list[Spec], batches: list[Batch], at: np.ndarray) -> tuple[int, int]:
    """Bytes of engines with one window each, and what counting says of the same windows."""
    measured = sum(kept_by([window], batches, "rescan") for window in windows)
    return measured, TUPLE * sum(tuples(window, at) for window in windows)


def tuples(window: Spec, at: np.ndarray) -> int:
    """Tuples that a window needs on its own at the end of the trace: its content, and what came since."""
    size, slide = window
    slid = SECONDS // slide * slide
    return int(len(at) - np.searchsorted(at, (slid - size) * SECOND))


def tuples_of_chain(chain: WindowChain, at: np.ndarray) -> int:
    """Tuples of a chain, each kept once: cores and buffers reach back as far as any of its members does."""
    return max(tuples((member.size, member.slide), at) for member in chain.members)


def sizes_table(record: Record) -> str:
    """Bytes by rate and number of windows, and what sharing saves."""
    columns = [
        {"key": "rate", "label": "connections/s", "format": ",d"},
        {"key": "count", "label": "windows", "format": ",d"},
        {"key": "number_of_chains", "label": "chains", "format": "d"},
        *({"key": name, "label": label, "format": ">"} for name, label in NAMES.items()),
        {"key": "over_chains", "label": "isolated / chains", "format": ",.0f"},
        {"key": "over_ring", "label": "isolated / ring", "format": ",.0f"},
        {"key": "over_slices", "label": "isolated / slices", "format": ",.0f"},
        {"key": "over_widest", "label": "slices / widest window alone", "format": ".2f"},
    ]
    rows = [
        {
            **row,
            **{name: short(row[name]) + "B" for name in NAMES},
            **{f"over_{name}": row["isolated"] / row[name] for name in ("chains", "ring", "slices")},
            "over_widest": row["slices"] / row["widest"],
        }
        for row in record["rows"]
    ]
    return table_text(columns, rows)


def alone_table(record: Record) -> str:
    """Windows with an engine each, beside what was counted."""
    columns = [
        {"key": "rate", "label": "connections/s", "format": ",d"},
        {"key": "alone_measured", "label": "engines of events, one a window", "format": ",d"},
        {"key": "alone_counted", "label": "tuples counted", "format": ",d"},
        {"key": "ratio", "label": "measured / counted", "format": ".2f"},
    ]
    rows = {row["mode"]: row for row in record["rows"]}.values()
    return table_text(
        columns, [{**row, "ratio": row["alone_measured"] / row["alone_counted"]} for row in rows]
    )


def bytes_text(value: float) -> str:
    """Bytes in three digits."""
    return f"{short(value)}B"


CHART = Chart(
    "count", "windows", "bytes of state", NAMES, y_text=bytes_text,
    panels={mode: f"{rate:,} connections/s" for mode, rate in RATES.items()},
)  # fmt: skip
PARTS = {"table": sizes_table, "alone": alone_table, "origin": origin_text}
