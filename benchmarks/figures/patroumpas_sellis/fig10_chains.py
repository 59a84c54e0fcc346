"""Figure 10: chains that windows of three classes make, by the number of windows, and the time to find them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean, median
from time import process_time
from typing import Any

from benchmarks.figures.page import Record
from benchmarks.figures.patroumpas_sellis.window_classes import CLASSES, COUNTS, LONGEST, draw_windows
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.plan.chain_cover import batch_chains, chain_cover
from muntin.plan.nesting import Nesting
from muntin.plan.window_chain import Spec, WindowChain

DRAWS, QUICK_DRAWS = 11, 2
KINDS = {
    "any": "any size",
    "multiple": "sizes multiples of slides",
    "any_from_2": "any size, slides from 2 on",
    "multiple_from_2": "sizes multiples of slides, slides from 2 on",
}
NAMES = {
    "sweep": "sweep", "online": "one by one", "fewest": "fewest",
    "sweep_from_2": "sweep, slides > 1", "online_from_2": "one by one, slides > 1",
    "fewest_from_2": "fewest, slides > 1",
}  # fmt: skip
METHODS = ("sweep", "online", "fewest")

NOTES = f"""\
Windows drawn at random: a slide of the class, then a size above it of up to {LONGEST} timestamps, or a multiple of it.
Most of many are drawn again. sweep: all at once, from short to long. one by one: registered in the order drawn, with
re-grouping as it comes. fewest: a minimum chain cover. Means over the draws; CPU milliseconds, median. After each,
every window is in one chain, every chain is one, and no way needs fewer chains than the cover."""


def run(quick: bool) -> Result:
    """Group every class, number and kind of windows, in all three ways."""
    counts, draws = (COUNTS[:1], QUICK_DRAWS) if quick else (COUNTS, DRAWS)
    rows = [
        {**measure(name, count, kind, draws), "mode": name, "count": count, "kind": kind}
        for kind in KINDS
        for name in CLASSES
        for count in counts
    ]
    for row in rows:  # beside the lines of any size those without slide 1, for the figure
        if row["kind"] == "any":
            other = next(each for each in rows if each["kind"] == "any_from_2" and same(each, row))
            row |= {f"{method}_from_2": other[method] for method in METHODS}
    return Result(
        name="patroumpas_sellis/ps10",
        title="Chains against the number of windows",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("kind", "windows"), Column("mode", "class"), Column("count", "windows", ",d"),
            Column("different", "different", ",.0f"), *(Column(method, NAMES[method], ".1f") for method in METHODS),
            *(Column(f"{method}_ms", f"{NAMES[method]}, ms", ".2f") for method in METHODS),
        ],
        rows=rows,
        parameters={"draws": draws},
    )  # fmt: skip


def same(one: Record, other: Record) -> bool:
    """Whether two rows are of the same class and number of windows."""
    return (one["mode"], one["count"]) == (other["mode"], other["count"])


def measure(name: str, count: int, kind: str, draws: int) -> dict[str, Any]:
    """Means of chains and medians of milliseconds over some draws."""
    least, multiples = (2 if kind.endswith("from_2") else 1), kind.startswith("multiple")
    found: dict[str, list[float]] = {}
    for seed in range(draws):
        windows = draw_windows(name, count, seed, multiples, least)
        chains = {}
        for method, group in (("sweep", batch_chains), ("online", one_by_one), ("fewest", chain_cover)):
            chains[method], seconds = timed(partial(group, windows))
            found.setdefault(method, []).append(len(chains[method]))
            found.setdefault(f"{method}_ms", []).append(seconds * 1e3)
            check(windows, chains[method])
        assert len(chains["fewest"]) <= min(len(chains["sweep"]), len(chains["online"]))
        found.setdefault("different", []).append(len(set(windows)))
    return {key: (median if key.endswith("_ms") else mean)(values) for key, values in found.items()}


def one_by_one(windows: list[Spec]) -> list[WindowChain]:
    """Register windows in the order they have."""
    nesting = Nesting()
    for window in windows:
        nesting.register(*window)
    return list(nesting.chains)


def timed(group: Callable[[], list[WindowChain]]) -> tuple[list[WindowChain], float]:
    """Chains, and CPU seconds to find them."""
    before = process_time()
    chains = group()
    return chains, process_time() - before


def check(windows: list[Spec], chains: list[WindowChain]) -> None:
    """Every window in one place, in a chain that is one."""
    for chain in chains:
        chain.check()
    placed = [spec for chain in chains for member in chain.members for spec in member.specs()]
    assert sorted(placed) == sorted(set(windows)), "a window is in no chain, or in two"


def kind_table(record: Record, kind: str) -> str:
    """Chains and milliseconds for one kind of windows."""
    columns = [
        {"key": "mode", "label": "class", "format": ""},
        {"key": "count", "label": "windows", "format": ",d"},
        {"key": "different", "label": "different", "format": ",.0f"},
        *({"key": method, "label": NAMES[method], "format": ".1f"} for method in METHODS),
        *({"key": f"{method}_ms", "label": f"{NAMES[method]}, ms", "format": ".1f"} for method in METHODS),
    ]
    return table_text(columns, [row for row in record["rows"] if row["kind"] == kind])


CHART = Chart(
    "count", "windows", "chains", NAMES,
    panels={name: f"{name}: slides up to {most}" for name, most in CLASSES.items()},
    is_log_y=False, where={"kind": "any"}, dashed=tuple(name for name in NAMES if name.endswith("from_2")),
)  # fmt: skip
PARTS = {**{kind: partial(kind_table, kind=kind) for kind in KINDS}, "origin": origin_text}
