"""How figures look: panels side by side, and names beside the lines instead of a legend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.figures.page import MODE_TITLES, Record, rows_of, short

COLOURS = {
    "r_int": "#0072B2", "b_int": "#D55E00", "psoup": "#009E73", "quantile_tree": "#8C5FBF",
    "materialize_all": "#B8860B", "materialize_none": "#666666",
    "tree": "#0072B2", "dense": "#D55E00", "scan": "#009E73", "naive": "#666666",
    "tree_probe": "#56B4E9", "dense_probe": "#E69F00",
    "sweep": "#D55E00", "online": "#009E73", "fewest": "#0072B2",
    "sweep_from_2": "#E69F00", "online_from_2": "#66B99A", "fewest_from_2": "#56B4E9",
    "isolated": "#666666", "chains": "#D55E00", "ring": "#009E73", "slices": "#0072B2",
    "numbers": "#56B4E9", "tables": "#8C5FBF", "panes": "#D55E00", "paired_windows": "#009E73",
    "numpy": "#666666",
    "r_int_ratio": "#0072B2", "b_int_ratio": "#D55E00", "quantile_tree_ratio": "#8C5FBF",
    "muntin": "#0072B2", "window": "#D55E00",
    "each": "#666666", "duckdb": "#D55E00", "duckdb_filter": "#E69F00", "polars": "#009E73",
    "reindex": "#666666", "del": "#B8860B", "wata": "#AAAAAA", "wata_swept": "#C49A6C", "chronological": "#8C5FBF",
    "rebuild": "#D55E00", "no_rebuild": "#0072B2", "lazy_rebuild": "#E69F00", "lazy_no_rebuild": "#56B4E9",
    "count_rebuild": "#009E73", "count_no_rebuild": "#66B99A",
    "none": "#444444",
    "shape_4x4": "#0072B2", "shape_8x2": "#009E73", "shape_2x8": "#D55E00",
    "staircase_tree": "#0072B2", "staircase_dense": "#D55E00", "scan_keys": "#666666", "scan_columns": "#B8860B",
}  # fmt: skip
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888",
    "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.titlepad": 12,
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#e4e4e4", "grid.linewidth": 0.7,
    "axes.axisbelow": True, "xtick.color": "#444444", "ytick.color": "#444444",
    "svg.hashsalt": "muntin", "figure.facecolor": "white",
}  # fmt: skip
_FEW = 6  # values of x that are each named
GAP = 0.062  # least distance between two names, as a part of the panel's height


@dataclass(frozen=True)
class Chart:
    """What is drawn: values by name over the column `x` of a result, in a panel for each mode. A value that is
    missing is left out."""

    x: str
    x_label: str
    y_label: str
    names: dict[str, str]  # labels by structure, in the order of their colours' importance
    is_log: bool = True
    apart: tuple[Any, ...] = field(default=())  # values of x drawn as rings, not joined to the line
    places: tuple[str, ...] = ()  # values of x side by side, if they are no numbers
    panels: dict[str, str] = field(default_factory=MODE_TITLES.copy)  # titles by mode
    is_log_y: bool = True
    where: dict[str, Any] = field(default_factory=dict)  # what other columns must be for a row to be drawn
    dashed: tuple[str, ...] = ()
    y_text: Callable[[float], str] = short
    columns: int = 0  # panels side by side, if not all of them
    has_one_scale: bool = True  # the same values of y in all panels
    x_text: Callable[[float], str] = "{:,.0f}".format  # of numbers on a scale of powers of ten
    says_ends: bool = False  # beside the name of a line that stops before the others
    has_legend: bool = False  # one above all panels, in place of names beside the lines

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure; the same record gives the same file."""
        with plt.rc_context(STYLE):
            shown = {mode: title for mode, title in self.panels.items() if self._rows(record, mode)}
            across = self.columns or len(shown)
            down = -(-len(shown) // across)
            width, height = 10.4 if across < 3 else 4.6 * across, 4.3
            if down > 1:  # smaller, so that names stay readable where the page is narrow
                width, height = 3.8 * across, 3.2
            figure, grid = plt.subplots(
                down, across, figsize=(width, height * down), sharey=self.has_one_scale, squeeze=False
            )
            panels = grid.flat
            for panel in panels[len(shown) :]:
                panel.set_axis_off()
            panels = panels[: len(shown)]
            for panel, (mode, title) in zip(panels, shown.items(), strict=True):
                self._draw_lines(panel, self._rows(record, mode))
                panel.set_title(title)
                panel.set_xlabel(self.x_label)
            for panel in panels[::across] if self.has_one_scale else panels:
                panel.set_ylabel(self.y_label)
            for panel in panels:
                low, high = panel.get_ylim()
                panel.set_ylim(low if self.is_log_y else 0, high)
            for panel, mode in zip(panels, shown, strict=True):
                self._name_lines(panel, self._rows(record, mode))
            figure.tight_layout(
                w_pad=2.5, rect=(0, 0, 1, 1 - 0.35 / (height * down) if self.has_legend else 1)
            )
            if self.has_legend:
                handles = [
                    Line2D([], [], color=COLOURS[name], linewidth=1.8, marker="o") for name in self.names
                ]
                figure.legend(
                    handles,
                    list(self.names.values()),
                    loc="upper center",
                    ncols=len(self.names),
                    frameon=False,
                )
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata, dpi=110)
            plt.close(figure)

    def _rows(self, record: Record, mode: str) -> list[Record]:
        rows = rows_of(record, mode)
        return [row for row in rows if all(row[key] == value for key, value in self.where.items())]

    def _draw_lines(self, panel: Axes, rows: list[Record]) -> None:
        joined = [row for row in rows if row[self.x] not in self.apart]
        alone = [row for row in rows if row[self.x] in self.apart]
        for name in self.names:
            x, y = self._points(joined, name)
            style = "--" if name in self.dashed else "-"
            panel.plot(x, y, color=COLOURS[name], linewidth=1.8, linestyle=style, marker="o", markersize=3.6)
            x, y = self._points(alone, name)
            panel.plot(
                x, y, color=COLOURS[name], linestyle="", marker="o", markersize=5, markerfacecolor="white"
            )
        panel.set_yscale("log" if self.is_log_y else "linear")
        panel.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: self.y_text(value).replace(".00", "").replace(".0", ""))
        )
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.tick_params(which="minor", length=0)
        low, high = panel.get_ylim()
        if (
            self.is_log_y and np.floor(np.log10(high)) - np.ceil(np.log10(low)) < 1
        ):  # at most one power of ten
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        values = {row[self.x] for row in rows}
        if self.places:
            panel.set_xticks(range(len(self.places)), self.places)
            panel.set_xlim(-0.3, len(self.places) - 0.7)
        elif self.is_log:
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: self.x_text(value)))
            if len(values) <= _FEW:
                panel.set_xticks(list(values))
                panel.xaxis.set_minor_formatter(NullFormatter())
        else:
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))

    def _points(self, rows: list[Record], name: str) -> tuple[list[Any], list[Any]]:
        there = [row for row in rows if row.get(name) is not None]
        x = [self.places.index(row[self.x]) if self.places else row[self.x] for row in there]
        return x, [row[name] for row in there]

    def _name_lines(self, panel: Axes, rows: list[Record]) -> None:
        """Names at the right ends, moved apart where they would overlap."""
        scale = np.log if self.is_log_y else np.asarray
        low, high = scale(panel.get_ylim())
        last = {name: [row[name] for row in rows if row.get(name) is not None] for name in self.names}
        wanted = {name: (scale(values[-1]) - low) / (high - low) for name, values in last.items() if values}
        if not wanted:
            return
        places = spread_out(wanted, GAP)
        up = max(0.0, -min(places.values()))  # no name below the panel, among those of its scale
        for name, place in places.items():
            end = self._end(rows, name)
            panel.annotate(
                end.removeprefix(", ") if self.has_legend else self.names[name] + end,
                (1.02, place + up),
                xycoords="axes fraction",
                va="center",
                color=COLOURS[name],
            )

    def _end(self, rows: list[Record], name: str) -> str:
        """Where a line stops before the others do."""
        there = [row[self.x] for row in rows if row.get(name) is not None]
        return f", to {there[-1]:,}" if self.says_ends and there[-1] != rows[-1][self.x] else ""


def spread_out(wanted: dict[str, float], gap: float) -> dict[str, float]:
    """Places as near to those wanted as keeps them `gap` apart, in the same order.

    >>> {name: round(place, 2) for name, place in spread_out({"a": 0.5, "b": 0.5, "c": 0.9}, 0.1).items()}
    {'a': 0.45, 'b': 0.55, 'c': 0.9}
    """
    clusters: list[tuple[list[str], float]] = []  # names from below, and the middle of their places
    for name in sorted(wanted, key=wanted.__getitem__):
        names, middle = [name], wanted[name]
        while clusters and _top(clusters[-1], gap) > middle - gap * len(names) / 2 + 1e-12:
            below, its_middle = clusters.pop()
            middle = (its_middle * len(below) + middle * len(names)) / (len(below) + len(names))
            names = below + names
        clusters.append((names, middle))
    return {
        name: middle + gap * (number - (len(names) - 1) / 2)
        for names, middle in clusters
        for number, name in enumerate(names)
    }


def _top(cluster: tuple[list[str], float], gap: float) -> float:
    return cluster[1] + gap * len(cluster[0]) / 2
