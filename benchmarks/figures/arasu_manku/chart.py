"""Errors beside what was promised and how much smaller than a ring sketches are; errors over bytes, beside rivals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.figures.page import Record
from benchmarks.figures.plot import STYLE

COLOURS = {16: "#009E73", 64: "#0072B2", 256: "#D55E00"}
PALETTE = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00")
LINES = {"bounded": "-", "unbounded": "--"}


@dataclass(frozen=True)
class BoundsChart:
    """A line for each eps and kind; full lines for windows of one length, broken ones for any length."""

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure; the same record gives the same file."""
        with plt.rc_context(STYLE):
            figure, (errors, sizes) = plt.subplots(1, 2, figsize=(10.4, 4.3))
            self._draw(errors, record, "error")
            self._draw(sizes, record, "smaller")
            errors.axhline(1, color="#444444", linewidth=1)
            errors.set_title("Largest error / promised")
            sizes.set_title("Bytes of a ring / bytes of the sketch")
            sizes.axhline(1, color="#444444", linewidth=1)
            sizes.set_yscale("log")
            sizes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            sizes.yaxis.set_minor_formatter(NullFormatter())
            figure.tight_layout(w_pad=2.5)
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
            plt.close(figure)

    def _draw(self, panel: Axes, record: Record, key: str) -> None:
        for kind, line in LINES.items():
            for inverse, colour in COLOURS.items():
                rows = [row for row in record["rows"] if row["kind"] == kind and row["inverse"] == inverse]
                windows = sorted({row["window"] for row in rows})
                # of quantiles and counts, the worse
                pick = max if key == "error" else min
                values = [pick(row[key] for row in rows if row["window"] == window) for window in windows]
                if windows:
                    label = f"eps = 1/{inverse}, {'one length' if kind == 'bounded' else 'any length'}"
                    panel.plot(windows, values, line, color=colour, marker="o", markersize=3.6, label=label)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("elements in the window, W")
        panel.legend(frameon=False, fontsize=8)


@dataclass(frozen=True)
class RivalsChart:
    """A panel for quantiles and one for counts: observed error over bytes, a line for each method."""

    def draw(self, record: Record, path: Path) -> None:
        """Write the figure; the same record gives the same file."""
        with plt.rc_context(STYLE):
            figure, panels = plt.subplots(1, 2, figsize=(10.4, 4.3))
            for panel, of in zip(panels, ("quantiles", "counts"), strict=True):
                rows = [row for row in record["rows"] if row["of"] == of]
                for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
                    points = sorted((row["bytes"], row["error"]) for row in rows if row["method"] == method)
                    line = "-" if method.startswith("sliding") else "--"
                    panel.plot(*zip(*points, strict=True), line, color=PALETTE[number], marker="o", markersize=3.6,
                               label=method)  # fmt: skip
                panel.set_xscale("log")
                panel.set_yscale("log")
                panel.set_xlabel("bytes")
                panel.set_title(f"{of.capitalize()}: largest error / n")
                panel.legend(frameon=False, fontsize=8)
            figure.tight_layout(w_pad=2.5)
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
            plt.close(figure)
