"""How figures look: a panel per mode, logarithmic rates, and names beside the lines instead of a legend."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures.page import MODE_TITLES, Record, rows_of, short

COLOURS = {
    "r_int": "#0072B2", "b_int": "#D55E00", "psoup": "#009E73", "quantile_tree": "#8C5FBF",
    "materialize_all": "#B8860B", "materialize_none": "#666666",
    "tree": "#0072B2", "dense": "#D55E00", "scan": "#009E73", "naive": "#666666",
    "tree_probe": "#56B4E9", "dense_probe": "#E69F00",
}  # fmt: skip
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888",
    "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.titlepad": 12,
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#e4e4e4", "grid.linewidth": 0.7,
    "axes.axisbelow": True, "xtick.color": "#444444", "ytick.color": "#444444",
    "svg.hashsalt": "muntin", "figure.facecolor": "white",
}  # fmt: skip
GAP = 0.062  # least distance between two names, as a part of the panel's height


@dataclass(frozen=True)
class Chart:
    """What is drawn: rates by name over the column `x` of a result."""

    x: str
    x_label: str
    y_label: str
    names: dict[str, str]  # labels by structure, in the order of their colours' importance
    is_log: bool = True
    apart: tuple[float, ...] = field(default=())  # values of x drawn as rings, not joined to the line

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure; the same record gives the same file."""
        with plt.rc_context(STYLE):
            figure, panels = plt.subplots(1, len(MODE_TITLES), figsize=(10.4, 4.3), sharey=True)
            for panel, (mode, title) in zip(panels, MODE_TITLES.items(), strict=True):
                self._draw_lines(panel, rows_of(record, mode))
                panel.set_title(title)
                panel.set_xlabel(self.x_label)
            panels[0].set_ylabel(self.y_label)
            low, high = panels[0].get_ylim()
            panels[0].set_ylim(low, high)
            for panel, mode in zip(panels, MODE_TITLES, strict=True):
                self._name_lines(panel, rows_of(record, mode))
            figure.tight_layout(w_pad=2.5)
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata, dpi=110)
            plt.close(figure)

    def _draw_lines(self, panel: Axes, rows: list[Record]) -> None:
        joined = [row for row in rows if row[self.x] not in self.apart]
        alone = [row for row in rows if row[self.x] in self.apart]
        for name in self.names:
            x, y = ([row[key] for row in joined] for key in (self.x, name))
            panel.plot(x, y, color=COLOURS[name], linewidth=1.8, marker="o", markersize=3.6)
            x, y = ([row[key] for row in alone] for key in (self.x, name))
            panel.plot(
                x, y, color=COLOURS[name], linestyle="", marker="o", markersize=5, markerfacecolor="white"
            )
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: short(value).replace(".00", "").replace(".0", ""))
        )
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.tick_params(which="minor", length=0)
        if self.is_log:
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        else:
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))

    def _name_lines(self, panel: Axes, rows: list[Record]) -> None:
        """Names at the right ends, moved apart where they would overlap."""
        low, high = np.log(panel.get_ylim())
        wanted = {name: (np.log(rows[-1][name]) - low) / (high - low) for name in self.names}
        for name, place in spread_out(wanted, GAP).items():
            panel.annotate(
                self.names[name], (1.02, place), xycoords="axes fraction", va="center", color=COLOURS[name]
            )


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
