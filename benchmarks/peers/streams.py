"""Windows per key over a whole stream, beside stream processors: each reads all events, and gives all answers.

PyFlink's dependencies do not go together with ours, so it runs in an interpreter of its own, which the environment
names: `PEERS_FLINK=/path/to/python`. Without it, or without the module, Flink is left out, and the result says so.
Spark is that of the `spark` extra.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import muntin
from benchmarks.machine import ROOT
from benchmarks.measure import measure_side_by_side
from benchmarks.peers.windows import SECOND, Asked, Windows, asked

TITLE = "Windows per key, whole streams"
PROCESSORS = ("flink", "spark")
PATIENCE = 400  # seconds of the clock for one of them with one number of queries
SHORT = 6  # seconds of the stream whose answers are compared


@dataclass(frozen=True)
class Streams:
    """A stream of so many seconds, and windows of up to as many."""

    seconds: int
    rate: int
    keys: int

    @property
    def longest(self) -> int:
        return self.seconds

    @cached_property
    def batches(self) -> list[pa.Table]:
        kind = Windows(TITLE, self.rate, self.keys)
        return [kind.second(number) for number in range(self.seconds)]

    def write(self, folder: Path) -> None:
        """All events and the first few, as CSV, which every one of them reads, and as Parquet."""
        for part, seconds in (("short", SHORT), ("whole", self.seconds)):
            table = pa.concat_tables(self.batches[:seconds])
            (folder / part).mkdir()
            pyarrow.csv.write_csv(
                table, folder / part / "events.csv", pyarrow.csv.WriteOptions(include_header=False)
            )
            (folder / f"{part}_parquet").mkdir()
            pyarrow.parquet.write_table(table, folder / f"{part}_parquet" / "events.parquet")


class LeftOutError(Exception):
    """A stream processor takes no part, for a reason that the result tells."""


def race_of_streams(streams: Streams, counts: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each number of queries, and the versions of those who took part."""
    folder = Path(tempfile.mkdtemp(prefix="muntin-peers-"))
    versions: dict[str, str] = {}
    left_out: dict[str, str] = {}
    try:
        streams.write(folder)
        rows = []
        for count in counts:
            queries = asked(count, streams.longest)
            (folder / "queries.json").write_text(json.dumps(queries))
            rows.append(_row(streams, queries, folder, versions, left_out))
        return rows, versions
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _row(
    streams: Streams, queries: list[Asked], folder: Path, versions: dict[str, str], left_out: dict[str, str]
) -> dict[str, Any]:
    events = streams.seconds * streams.rate
    expected = answers_of(streams.batches[:SHORT], queries)  # and kernels are loaded
    row: dict[str, Any] = {"kind": TITLE, "queries": len(queries), "unit": "events", "compared": len(queries)}
    one, two = measure_side_by_side(
        [lambda run, threads=threads: play(streams.batches, queries, threads) for threads in (1, 2)], 3, 0
    )
    row |= _rates("muntin", events, one.cpu_median, one.median, one.cpu_median)
    row |= _rates("muntin_2", events, two.cpu_median, two.median, one.cpu_median)
    for name in PROCESSORS:
        try:
            if name in left_out:
                raise LeftOutError(left_out[name])
            found = processed(name, folder)
        except LeftOutError as reason:
            row[f"{name}_why"] = left_out[name] = str(reason)
            continue
        assert_same(name, folder / "answers", expected)
        versions[name] = found["version"]
        row |= _rates(name, events, found["cpu"], found["seconds"], one.cpu_median)
        row[f"{name}_reading"] = found["reading"] / found["cpu"]
    return row


def _rates(name: str, events: int, cpu: float, seconds: float, ours: float) -> dict[str, float]:
    """Of one of them; `ours` are CPU seconds of muntin."""
    return {name: events / cpu, f"{name}_clock": events / seconds, f"{name}_ratio": cpu / ours}


def play(batches: Sequence[pa.Table], queries: Sequence[Asked], threads: int = 1,
         keep: Callable[[str, pa.Table], object] = lambda name, table: None) -> None:  # fmt: skip
    """An engine over the whole stream, second by second, until the last window that holds an event has closed."""
    engine = muntin.Engine(threads=threads)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, m BIGINT) TIMESTAMP BY ts")
    engine.register_many({str(number): each.sql(True) for number, each in enumerate(queries)})
    last = len(batches) + max(each.size for each in queries)
    for second in range(last):
        if second < len(batches):
            engine.push("s", batches[second])
        more = True
        while more:
            answers = engine.advance(until=(second + 1) * SECOND)
            for name, table in answers.items():
                keep(name, table)
            more = answers.more


def answers_of(batches: Sequence[pa.Table], queries: Sequence[Asked]) -> pa.Table:
    """All of them, in one order."""
    parts: list[pa.Table] = []

    def keep(name: str, table: pa.Table) -> None:
        columns = {"q": np.full(table.num_rows, int(name)), "ends": table["window_end"].cast(pa.int64()),
                   "k": table["k"], "v": table["v"].cast(pa.float64())}  # fmt: skip
        parts.append(pa.table(columns))

    play(batches, queries, keep=keep)
    return in_order(pa.concat_tables(parts))


def in_order(answers: pa.Table) -> pa.Table:
    return answers.sort_by([(name, "ascending") for name in ("q", "ends", "k")])


def processed(name: str, folder: Path) -> dict[str, Any]:
    """What a processor prints of its run."""
    python = sys.executable if name == "spark" else os.environ.get(f"PEERS_{name.upper()}", "")
    if not python:
        raise LeftOutError(f"PEERS_{name.upper()} names no interpreter that has it")
    shutil.rmtree(folder / "answers", ignore_errors=True)
    # as a file: this package imports what the other interpreter need not have
    command = [python, str(Path(__file__).with_name(f"in_{name}.py")), str(folder)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=True,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"more than {PATIENCE} s") from None
    except (OSError, subprocess.CalledProcessError) as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise LeftOutError(lines[-1][:200] if lines else "it failed without a word") from error
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def assert_same(name: str, folder: Path, expected: pa.Table) -> None:
    """Files of q, end of the window, k and value, without a header."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    files = [path for path in files if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    types = {"q": pa.int64(), "ends": pa.timestamp("us"), "k": pa.int64(), "v": pa.float64()}
    options = pyarrow.csv.ReadOptions(column_names=list(types))
    converted = pyarrow.csv.ConvertOptions(column_types=types)
    found = pa.concat_tables(
        [pyarrow.csv.read_csv(path, options, convert_options=converted) for path in files]
    )
    found = in_order(found.set_column(1, "ends", found["ends"].cast(pa.int64())))
    assert found.num_rows == expected.num_rows, (
        f"{name}: {found.num_rows:,} answers, muntin {expected.num_rows:,}"
    )
    for column in ("q", "ends", "k"):
        assert found[column].equals(expected[column].cast(pa.int64())), (
            f"{name}: another {column} than muntin"
        )
    assert np.allclose(found["v"].to_numpy(), expected["v"].to_numpy(), rtol=1e-9), f"{name}: other values"
