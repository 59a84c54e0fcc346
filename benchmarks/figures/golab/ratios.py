"""How ratios are drawn: a dot for each row, as far from 1 as it is from what it is compared with, and its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures.page import Record
from benchmarks.figures.plot import COLOURS, STYLE

ROOM = 0.26  # of the width between the least and the greatest ratio, on either side: for the numbers


@dataclass(frozen=True)
class Row:
    """A line of the figure: its group, its name, the colour's name, and a ratio for each panel that has one."""

    group: str
    label: str
    name: str
    ratios: dict[str, float]


@dataclass(frozen=True)
class RatioChart:
    """Panels side by side with the same rows; a line at 1 in each, a dot and a number for each row."""

    rows_of: Callable[[Record], list[Row]]
    panels: dict[str, str]
    is_log: bool = False

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure; the same record gives the same file."""
        rows = self.rows_of(record)
        places, groups = places_of(rows)
        with plt.rc_context({**STYLE, "axes.grid.axis": "x"}):
            height = 1.0 + 0.27 * (max(places) - min(places) + 1)
            width = 2.4 + 2.6 * len(self.panels)
            figure, panels = plt.subplots(
                1, len(self.panels), figsize=(width, height), sharex=True, sharey=True
            )
            for panel, (key, title) in zip(panels, self.panels.items(), strict=True):
                self._draw(panel, key, rows, places)
                panel.set_title(title)
            self._scale(
                panels[0], [ratio for row in rows for key, ratio in row.ratios.items() if key in self.panels]
            )
            panels[0].set_yticks(places, [row.label for row in rows])
            panels[0].set_ylim(max(places) + 0.7, min(places) - 1.3)
            for group, place in groups.items():
                panels[0].annotate(
                    group, (0, place), xycoords=("axes fraction", "data"), xytext=(-6, 0), textcoords="offset points",
                    ha="right", va="center", fontweight="bold", annotation_clip=False,
                )  # fmt: skip
            figure.tight_layout(w_pad=2.0)
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
            plt.close(figure)

    def _draw(self, panel: Axes, key: str, rows: list[Row], places: list[float]) -> None:
        found = [
            (place, row, row.ratios[key])
            for place, row in zip(places, rows, strict=True)
            if key in row.ratios
        ]
        panel.axvline(1, color="#444444", linewidth=1)
        for place, row, ratio in found:
            colour = COLOURS[row.name]
            panel.hlines(place, 1, ratio, color=colour, linewidth=2.2)
            panel.plot([ratio], [place], color=colour, marker="o", markersize=5)
            side = 1 if ratio >= 1 else -1
            panel.annotate(
                percent(ratio), (ratio, place), xytext=(6 * side, 0), textcoords="offset points",
                ha="left" if side > 0 else "right", va="center", color=colour, fontsize=8.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},  # no line of the grid through a sign
            )  # fmt: skip
        panel.tick_params(axis="y", length=0)

    def _scale(self, panel: Axes, found: list[float]) -> None:
        """The same for all panels, so that a small ratio looks small."""
        least, most = min(1.0, *found), max(1.0, *found)
        if self.is_log:
            panel.set_xscale("log")
            reach = (most / least) ** (2 * ROOM)
            panel.set_xlim(least / reach, most * reach)
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.xaxis.set_minor_formatter(NullFormatter())
        else:
            span = max(most - least, 0.05)
            panel.set_xlim(least - 2 * ROOM * span, most + 2 * ROOM * span)
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
            panel.locator_params(axis="x", nbins=6)


def places_of(rows: list[Row]) -> tuple[list[float], dict[str, float]]:
    """Where rows lie, from above, and the names of their groups: half a row and a name above each group."""
    places, groups, at = [], {}, 0.0
    for row in rows:
        if row.group and row.group not in groups:
            at += 0.4 if groups else 0.0
            groups[row.group] = at
            at += 1
        places.append(at)
        at += 1
    return places, groups


def percent(ratio: float) -> str:
    """How much more or less.

    >>> percent(1.224), percent(0.98), percent(1.0), percent(12.3)
    ('+22 %', '−2 %', '0 %', '12 times')
    """
    if ratio >= 3:
        return f"{ratio:.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"
    return "0 %" if round(100 * (ratio - 1)) == 0 else f"{100 * (ratio - 1):+.0f} %".replace("-", "−")
