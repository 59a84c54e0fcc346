"""Series: the variants of a figure over the number of parts, in the shape that charts and pages take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.results import Results
from benchmarks.figures.page import Record
from benchmarks.report import table_text

PARTS = (1, 2, 4, 9, 16, 25)
FLAT = ("reindex", "del", "wata", "wata_swept")  # one time is split: any number of parts
SQUARE = ("chronological", "rebuild", "no_rebuild", "lazy_rebuild", "lazy_no_rebuild")
NAMES = {
    "reindex": "R-ins", "del": "D-ins", "wata": "WATA", "wata_swept": "WATA, swept", "chronological": "chr",
    "rebuild": "Rebuild", "no_rebuild": "NoRebuild", "lazy_rebuild": "LazyRebuild",
    "lazy_no_rebuild": "LazyNoRebuild",
}  # fmt: skip
MEASURES = {"update": "update", "probe": "probe of one key", "scan": "scan"}


def label_of(name: str, parts: int) -> str | None:
    """The indexing of a variant with that many parts; None where there is none."""
    if name in FLAT:
        least = 2 if name.startswith("wata") else 1
        return f"{name} {parts}" if parts >= least else None
    side = round(parts**0.5)
    least = 3 if name.startswith("lazy") else 2
    return f"{name} {side}x{side}" if side * side == parts and side >= least else None


def measure_series(
    results: Results,
    numbers: Iterable[int],
    updates: int,
    is_cold: bool = False,
    names: Iterable[str] = tuple(NAMES),
) -> list[dict[str, Any]]:
    """A row for each measure and number of parts: milliseconds by variant, and what it touched."""
    rows = []
    for parts in numbers:
        found = {
            name: Drive(label, results, updates, is_cold).run()
            for name in names
            if (label := label_of(name, parts))
        }
        for mode in MEASURES:
            row: dict[str, Any] = {"mode": mode, "parts": parts}
            for name, one in found.items():
                row[name] = one[f"{mode}_ms"]
                row[f"{name}_cpu"] = one[f"{mode}_cpu_ms"]
                for what in ("touched", "bytes_read", "bytes_written", "bytes_from_disk", "bytes"):
                    row[f"{name}_{what}"] = one[what]
            rows.append(row)
    return rows


def times_table(record: Record, mode: str, kind: str = "") -> str:
    """Milliseconds of one measure, by parts and variant: of the clock, or of work if `kind` says so."""
    rows = [row for row in record["rows"] if row["mode"] == mode]
    names = [name for name in NAMES if any(name in row for row in rows)]
    columns = [{"key": "parts", "label": "parts", "format": "d"}]
    columns += [{"key": name, "label": NAMES[name], "format": ">"} for name in names]
    text = [
        {"parts": row["parts"], **{name: _milliseconds(row.get(name + kind)) for name in names}}
        for row in rows
    ]
    return table_text(columns, text)


def touched_table(record: Record) -> str:
    """Parts touched, and MB read and written, by an update."""
    rows = [row for row in record["rows"] if row["mode"] == "update"]
    names = [name for name in NAMES if any(name in row for row in rows)]
    columns = [{"key": "parts", "label": "parts", "format": "d"}]
    columns += [{"key": name, "label": NAMES[name], "format": ">"} for name in names]

    def cell(row: Record, name: str) -> str:
        if name not in row:
            return "–"
        moved = (row[f"{name}_bytes_read"] + row[f"{name}_bytes_written"]) / 1e6
        from_disk = row.get(f"{name}_bytes_from_disk", 0) / 1e6
        told = f", {from_disk:.1f} from disk" if from_disk >= 1 else ""
        return f"{row[f'{name}_touched']:.1f}; {moved:.1f} MB{told}"

    return table_text(
        columns, [{"parts": row["parts"], **{name: cell(row, name) for name in names}} for row in rows]
    )


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def best(row: Record, names: Iterable[str]) -> float:
    """The least time of some variants."""
    return min(row[name] for name in names if name in row)


def row_at(record: Record, mode: str, parts: int) -> Record:
    """The row of a measure at a number of parts."""
    found: Record = next(row for row in record["rows"] if (row["mode"], row["parts"]) == (mode, parts))
    return found


def findings_table(record: Record, parts: int = 16) -> str:
    """What the paper found, and what is found here, with as many parts: by the clock and by work."""
    rows = [
        {"what": what, "expected": expected, "clock": clock, "work": work}
        for (what, expected, clock), (*_, work) in zip(
            _findings(record, parts, ""), _findings(record, parts, "_cpu"), strict=True
        )
    ]
    columns = [
        {"key": "what", "label": "", "format": ""},
        {"key": "expected", "label": "expected", "format": ""},
        {"key": "clock", "label": "found, by the clock", "format": ">"},
        {"key": "work", "label": "found, by CPU time", "format": ">"},
    ]
    return table_text(columns, rows)


def _findings(record: Record, parts: int, kind: str) -> list[tuple[str, str, str]]:
    """What is compared, what is expected and what is found; `kind` ends the names of the times compared."""
    update, probe, scan = (
        {name: row[f"{name}{kind}"] for name in NAMES} | {"row": row}
        for row in (row_at(record, mode, parts) for mode in MEASURES)
    )
    swept, space = best(update, ("reindex", "del", "wata_swept")), update["row"]
    doubly = ("rebuild", "no_rebuild", "lazy_rebuild", "lazy_no_rebuild")
    all_of_it = {
        name: update[name] + probe[name] + scan[name] for name in NAMES
    }  # as the paper goes about it
    swept_total = best(all_of_it, ("reindex", "del", "wata_swept"))
    found = [
        ("best of R-ins, D-ins, swept WATA / Rebuild, update", "2 or more", swept / update["rebuild"]),
        ("best of R-ins, D-ins, swept WATA / NoRebuild, update", "2 or more", swept / update["no_rebuild"]),
        (
            "the same / NoRebuild, update, probe and scan",
            "more than 1",
            swept_total / all_of_it["no_rebuild"],
        ),
        ("R-ins / Rebuild, update", "2 or more", update["reindex"] / update["rebuild"]),
        ("pure WATA / Rebuild, update", "not in the paper", update["wata"] / update["rebuild"]),
        ("pure WATA / NoRebuild, update", "not in the paper", update["wata"] / update["no_rebuild"]),
        ("pure WATA / NoRebuild, probe", "more than 1", probe["wata"] / probe["no_rebuild"]),
        ("pure WATA / NoRebuild, scan", "more than 1", scan["wata"] / scan["no_rebuild"]),
        ("pure WATA / NoRebuild, update, probe and scan", "–", all_of_it["wata"] / all_of_it["no_rebuild"]),
        ("pure WATA / NoRebuild, space", "more than 1", space["wata_bytes"] / space["no_rebuild_bytes"]),
        ("R-ins / chr, update", "about 2", update["reindex"] / update["chronological"]),
        ("chr / Rebuild, update", "1.1 to 1.2", update["chronological"] / update["rebuild"]),
        ("scan / probe, Rebuild", "about 100", scan["rebuild"] / probe["rebuild"]),
    ]
    told = [(what, expected, f"{ratio:.2f}") for what, expected, ratio in found]
    dearer, cheaper = update["rebuild"] - update["wata"], probe["wata"] - probe["rebuild"]
    even = f"{dearer / cheaper:,.0f}" if cheaper > 0 else "never"
    told.append(("probes an update that make Rebuild as cheap as pure WATA", "–", even))
    for what, expected, row in (("updates", doubly[::-1], update), ("probes", doubly, probe)):
        in_order = sorted(doubly, key=row.__getitem__)
        told.append((f"order of {what}", _in_words(expected), _in_words(in_order)))
    return told


def _in_words(names: Iterable[str]) -> str:
    return ", ".join(NAMES[name] for name in names)
