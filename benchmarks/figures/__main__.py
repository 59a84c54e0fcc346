"""Measure and draw figures: `python -m benchmarks.figures [FIGURE …] [--quick] [--busy] [--draw]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.figures.page import PAGES, fill, pages
from benchmarks.machine import describe_commit
from benchmarks.measure import RESULTS, Result
from benchmarks.peace import BusyError, Watch
from benchmarks.report import table_text

FIGURES = {
    "fig01": "arasu_widom.fig01_growth",
    "fig09": "arasu_widom.fig09_mixed",
    "fig10": "arasu_widom.fig10_updates",
    "fig11": "arasu_widom.fig11_lookups",
    "fig11t": "arasu_widom.fig11t_times",
    "fig12": "arasu_widom.fig12_substreams",
    "fig12b": "arasu_widom.fig12b_max",
    "fig12c": "arasu_widom.fig12c_engine",
    "ps10": "patroumpas_sellis.fig10_chains",
    "ps11": "patroumpas_sellis.fig11_memory",
    "ps12": "patroumpas_sellis.fig12_evaluation",
    "gp09": "golab.gp09_shapes",
    "gp10": "golab.gp10_small",
    "gp13": "golab.gp13_rates",
    "gp14": "golab.gp14_large",
    "gp14b": "golab.gp14b_five_gigabytes",
    "gp17": "golab.gp17_counts",
    "gp53": "golab.gp53_keys",
    "gp56": "golab.gp56_negation",
    "gpt1": "golab.gpt1_sizes",
    "x15": "arasu_manku.x15_bounds",
    "x16": "arasu_manku.x16_rivals",
    "x17": "arasu_manku.x17_samples",
    "native": "spark.native",
    "filters": "rules.filters",
    "subscriptions": "rules.subscriptions",
    "queries": "peers.queries",
}


def main(arguments: list[str] | None = None) -> int:
    """Measure the named figures, or all; write results, plots and pages. 0 if all went well, 3 if the
    machine was too busy to record some."""
    options = parse(arguments)
    names = options.names or list(FIGURES)
    if unknown := [name for name in names if name not in FIGURES]:
        print(f"there is no figure '{unknown[0]}'; there are: {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    refused = False
    for name in [] if options.draw else names:
        try:
            measure_figure(name, options.quick, options.full, options.busy)
        except BusyError as busy:
            print(f"{name}: {busy}", file=sys.stderr)
            refused = True
    if not options.quick:
        for name in names:
            if record_of(name) is not None:
                draw_figure(name)
        write_pages()
    return 3 if refused else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.figures", description="Draw figures of the papers from measurements."
    )
    parser.add_argument("names", nargs="*", metavar="FIGURE", help=f"{', '.join(FIGURES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small and rough, nothing is written")
    parser.add_argument("--busy", action="store_true", help="record on a busy machine, too, and say so")
    parser.add_argument(
        "--full",
        action="store_true",
        help="as large as in the paper, where that takes many gigabytes of disk",
    )
    parser.add_argument(
        "--draw", action="store_true", help="only draw, and fill the pages, from the results there are"
    )
    return parser.parse_args(arguments)


def measure_figure(name: str, quick: bool, full: bool = False, busy: bool = False) -> None:
    """Measure one and print it; save it unless it is rough, or the machine was busy and that is not asked for."""
    sizes = {"full": True} if full and "full" in signature(module_of(name).run).parameters else {}
    commit, before = describe_commit(), time.perf_counter()  # now: the tree may move on meanwhile
    print(f"{name}: {(module_of(name).__doc__ or '').partition(chr(10))[0]}", flush=True)
    watch = None if quick else Watch(refuses=not busy)
    found: Result | list[Result] = module_of(name).run(quick, **sizes)
    peace = watch.end() if watch else None
    for result in found if isinstance(found, list) else [found]:
        print(table_text([asdict(column) for column in result.columns], result.rows), flush=True)
        print(f"{time.perf_counter() - before:.0f} seconds", flush=True)
        if not quick:
            (RESULTS / result.name).parent.mkdir(parents=True, exist_ok=True)
            print(f"written: {result.save(commit, peace)}\n", flush=True)


def draw_figure(name: str) -> None:
    """Draw one from its result, if it is more than a table."""
    if not hasattr(module_of(name), "CHART"):
        return
    path = PAGES / f"{paper_of(name).replace('_', '-')}-{name}.svg"
    module_of(name).CHART.draw(record_of(name), path)
    print(f"written: {path}")


def write_pages() -> None:
    """Fill the pages from the results."""
    for page in pages():
        page.write_text(fill(page.read_text(), part_of))
        print(f"written: {page}")


def part_of(name: str, part: str) -> str:
    """One part of a page, as a figure's module makes it from its result, if there is one."""
    record = record_of(name)
    if record is None:
        return f"*Not measured yet: `python -m benchmarks.figures {name}`.*"
    made: str = module_of(name).PARTS[part](record)
    return made


@cache
def module_of(name: str) -> ModuleType:
    """The module of a figure."""
    return import_module(f"benchmarks.figures.{FIGURES[name]}")


def paper_of(name: str) -> str:
    """The folder of a figure's paper."""
    return FIGURES[name].partition(".")[0]


def record_of(name: str) -> dict[str, Any] | None:
    """The result of a figure as last measured, if it has been; some figures are drawn from results of benchmarks."""
    module = module_of(name)
    if hasattr(module, "record"):
        found: dict[str, Any] | None = module.record()
        return found
    return json.loads(result_of(name).read_text()) if result_of(name).exists() else None


def result_of(name: str) -> Path:
    """The file of a figure's result."""
    return RESULTS / paper_of(name) / f"{name}.json"


if __name__ == "__main__":
    sys.exit(main())
