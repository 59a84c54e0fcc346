"""What every variant keeps on disk, and their order by it beside the paper's (section 5.3)."""

from __future__ import annotations

from benchmarks.figures.golab.series import NAMES
from benchmarks.figures.page import Record
from benchmarks.report import table_text

# The paper's order, with equals together: clustered files, then buckets with room, then those that keep the dead.
EXPECTED = (("reindex", "rebuild"), ("del", "no_rebuild"), ("wata", "lazy_rebuild", "lazy_no_rebuild"))
ALIKE = 1.01  # as good as equal


def space_table(record: Record) -> str:
    """Bytes on disk as a multiple of the least, with its place in the paper and here."""
    rows = [row for row in record["rows"] if row["mode"] == "update" and row["parts"] > 1]
    columns = [{"key": "parts", "label": "parts", "format": "d"}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in NAMES.items()]
    cells = []
    for row in rows:
        least = min(row[f"{name}_bytes"] for name in NAMES if f"{name}_bytes" in row)
        cells.append(
            {"parts": row["parts"],
             **{name: f"{row[f'{name}_bytes'] / least:.3f}" if name in row else "–" for name in NAMES}}
        )  # fmt: skip
    return table_text(columns, cells)


def order_table(record: Record) -> str:
    """The order by space, those that are as good as equal together."""
    columns = [
        {"key": "parts", "label": "parts", "format": "d"},
        {"key": "order", "label": "from least to most", "format": ""},
    ]
    rows = [
        {"parts": row["parts"], "order": ordered(row)}
        for row in record["rows"]
        if row["mode"] == "update" and row["parts"] >= 9
    ]
    paper = "; ".join(", ".join(NAMES[name] for name in group) for group in EXPECTED)
    return f"In the paper: {paper}.\n\n{table_text(columns, rows)}"


def ordered(row: Record) -> str:
    """The variants in groups of those alike.

    >>> ordered({"rebuild": 1, "rebuild_bytes": 100, "wata": 1, "wata_bytes": 200, "del": 1, "del_bytes": 100.5})
    'D-ins, Rebuild; WATA'
    """
    sizes = {name: row[f"{name}_bytes"] for name in NAMES if name in row}
    groups: list[list[str]] = []
    least = 0.0
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if not groups or sizes[name] > ALIKE * least:
            groups.append([])
            least = sizes[name]
        groups[-1].append(name)
    return "; ".join(", ".join(label for name, label in NAMES.items() if name in group) for group in groups)
