"""`muntin serve` under load from other processes: look-ups, pushes, both beside subscriptions, and a start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.machine import ROOT
from benchmarks.measure import Column, Result
from benchmarks.serve_client import ARROW, LINES, Caller, ask_paced, beside, follow, look_up, request

COLUMNS = [
    Column("what", "load"), Column("unit", "counted"), Column("rate", "per second", ",.0f"),
    Column("cpu_rate", "per CPU s of the server", ",.0f"), Column("p50", "p50, ms", ".2f"),
    Column("p99", "p99, ms", ".2f"), Column("seconds", "ready after, s", ".1f"),
    Column("memory", "memory of the server, MB", ",.0f"), Column("grown", "of that grown in the second half", ",.0f"),
]  # fmt: skip
NOTES = """A server process on an empty folder; clients are other processes on the same machine and keep their
connections. The log is forced to disk before a push is answered. `look-ups`: of one key of {keys:,}, one after the
other on one connection (latencies), then on {connections} connections (rates). `Arrow pushes`, `JSON lines`: batches
of {arrow_rows:,} and {json_rows:,} events of three columns, one query with keys, {pushers} connections. `all at once`:
{rate:,} events a second in batches of 5,000 as Arrow, 1,000 queries (900 compare a sum over one symbol with a
threshold by the second, 100 one for each symbol by ten seconds, EMIT CHANGES), beside them 1,000 look-ups a second
and 50 subscriptions to all answers, a checkpoint every {checkpoint} seconds, for {mixed} seconds; a look-up that is
asked late because the one before was slow counts from when it was due. `start`: after SIGTERM, with {queries:,}
queries and the state that stands beside it, until `/ready` says so."""
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, symbol BIGINT, n DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND;
REGISTER QUERY sums AS SELECT symbol, SUM(n) AS n, COUNT(*) AS many FROM s [RANGE 1 HOUR SLIDE 1 SECOND]
GROUP BY symbol;
"""
BEGIN = 1_767_225_600_000_000  # 2026-01-01
SECOND = 1_000_000
PUSHERS = 4  # connections


@dataclass(frozen=True)
class Sizes:
    """How much of each."""

    keys: int = 10_000
    seconds: float = 10.0  # of each load
    mixed: float = 120.0
    arrow_rows: int = 50_000
    json_rows: int = 5_000
    connections: int = 8
    rate: int = 500_000
    checkpoint: float = 10.0
    queries: int = 10_000
    state_events: int = 40_000_000


QUICK = Sizes(
    1_000, 0.5, 2.0, 20_000, 1_000, 4, rate=50_000, checkpoint=0.5, queries=100, state_events=100_000
)


class Server:
    """A server process, from start to stop."""

    def __init__(self, folder: Path, script: str, *options: str):
        began = time.perf_counter()
        (folder / "script.sql").write_text(script)
        command = [
            sys.executable, "-m", "muntin", "serve", str(folder / "script.sql"), "--data", str(folder / "data"),
        ]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", *options], env=environment, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", told)
        if not found:
            raise RuntimeError(f"the server did not start: {told}")
        self.port = int(found[1])
        self._seen = psutil.Process(self._process.pid)
        while b"true" not in (caller := Caller(self.port)).ask(request("GET", "/ready")):
            caller.close()
        self.seconds = time.perf_counter() - began

    @property
    def cpu(self) -> float:
        """Seconds of work so far."""
        spent = self._seen.cpu_times()
        return float(spent.user + spent.system)

    @property
    def memory(self) -> float:
        """Megabytes."""
        return float(self._seen.memory_info().rss / 1e6)

    def stop(self) -> None:
        """Let it write a checkpoint and end."""
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(300):
            raise RuntimeError("the server did not end well")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(script: str = SCRIPT, *options: str) -> Iterator[tuple[Server, Path]]:
    """A server on an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), script, *options)
        try:
            yield server, Path(folder)
        finally:
            server.kill()


def events(seed: int, rows: int, keys: int, at: int = BEGIN) -> pa.Table:
    """Some events within a tenth of a second."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(at + np.sort(random.integers(0, SECOND // 10, rows)), pa.timestamp("us")),
            "symbol": random.integers(0, keys, rows),
            "n": random.integers(0, 100, rows).astype(float),
        }
    )


def arrow_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def line_bytes(table: pa.Table) -> bytes:
    rows = zip(
        table["ts"].cast(pa.int64()).to_pylist(),
        *(table[n].to_pylist() for n in ("symbol", "n")),
        strict=True,
    )
    return "".join(f'{{"ts": {ts}, "symbol": {symbol}, "n": {n}}}\n' for ts, symbol, n in rows).encode()


def push_arrow(table: pa.Table) -> bytes:
    """A request that pushes a batch."""
    return request("POST", "/streams/s", arrow_bytes(table), ARROW)


def run(quick: bool) -> Result:
    """Each load by itself, then all at once, then a start."""
    sizes = QUICK if quick else Sizes()
    with serving() as (server, _):
        _fill(server, sizes)
        rows = [_look_ups(server, sizes)]
    for what, make, many in (
        ("Arrow pushes", push_arrow, sizes.arrow_rows),
        (
            "JSON lines",
            lambda table: request("POST", "/streams/s", line_bytes(table), LINES),
            sizes.json_rows,
        ),
    ):
        with serving() as (server, _):
            rows.append(_pushes(server, sizes, what, make, many))
    rows += _mixed(sizes)
    rows.append(_start(sizes))
    told = {name: getattr(sizes, name) for name in Sizes.__dataclass_fields__}
    return Result(
        name="serve",
        title="A server under load",
        notes=" ".join(NOTES.format(**told, pushers=PUSHERS).split()),
        columns=COLUMNS,
        rows=rows,
        parameters=told,
    )


def _fill(server: Server, sizes: Sizes) -> None:
    table = events(0, 10 * sizes.keys, sizes.keys)
    caller = Caller(server.port)
    caller.ask(push_arrow(table))
    caller.ask(push_arrow(events(1, 1, 1, BEGIN + 5 * SECOND)))  # windows end on the second
    symbol, n = table["symbol"].to_numpy(), table["n"].to_numpy()
    for key in range(20):  # a fast wrong answer is no result
        [row] = json.loads(caller.ask(look_up("sums", key)))
        if (row["n"], row["many"]) != (n[symbol == key].sum(), (symbol == key).sum()):
            raise AssertionError(f"{row} is not what was pushed for {key}")
    caller.close()


def _look_ups(server: Server, sizes: Sizes) -> dict[str, Any]:
    asked = [look_up("sums", key) for key in range(min(1_000, sizes.keys))]
    ask_paced(server.port, 0.5, 0, lambda number: asked[number % len(asked)])
    alone = _in_processes(server.port, sizes.seconds, 1, asked)
    cpu, began = server.cpu, time.perf_counter()
    many = _in_processes(server.port, sizes.seconds, sizes.connections, asked)
    return {
        "what": "look-ups", "unit": "look-ups", "rate": len(many) / (time.perf_counter() - began),
        "cpu_rate": len(many) / (server.cpu - cpu), **_latencies(alone), "memory": server.memory,
    }  # fmt: skip


def _in_processes(port: int, seconds: float, connections: int, asked: list[bytes]) -> list[float]:
    """How long answers took, of connections with a thread each in one other process."""
    with beside(_ask_together, port, seconds, connections, asked) as found:
        taken: list[float] = found()
    return taken


def _ask_together(port: int, seconds: float, connections: int, asked: list[bytes]) -> list[float]:
    with ThreadPoolExecutor(connections) as pool:
        some = [
            pool.submit(ask_paced, port, seconds, 0, lambda number: asked[number % len(asked)])
            for _ in range(connections)
        ]
        return [each for found in some for each in found.result()]


def _latencies(taken: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(np.array(taken) * 1_000, [50, 99])
    return {"p50": float(p50), "p99": float(p99)}


def _pushes(
    server: Server, sizes: Sizes, what: str, make: Callable[[pa.Table], bytes], rows: int
) -> dict[str, Any]:
    asked = [make(events(seed, rows, sizes.keys)) for seed in range(8)]
    Caller(server.port).ask(asked[0])
    cpu, began = server.cpu, time.perf_counter()
    taken = _in_processes(server.port, sizes.seconds, PUSHERS, asked)
    cpu, seconds = server.cpu - cpu, time.perf_counter() - began
    [told] = json.loads(Caller(server.port).ask(request("GET", "/streams")))  # idle connections are closed
    if told["events"] != (len(taken) + 1) * rows or told["late"]:
        raise AssertionError(f"{told} is not what was pushed: {(len(taken) + 1) * rows:,} events")
    return {
        "what": what, "unit": "events", "rate": len(taken) * rows / seconds,
        "cpu_rate": len(taken) * rows / cpu, **_latencies(taken), "memory": server.memory,
    }  # fmt: skip


def rules(symbols: int, per_second: int) -> Iterator[str]:
    """A thousand of them: most compare a sum over one symbol with a threshold, some one of each symbol."""
    each = 50 * per_second / symbols  # of n in a second, of a symbol
    for i in range(900):
        span, symbol = 1 + i % 30, i % symbols
        floor = each * span + 2 * (each * span * 60) ** 0.5 + i / 1_000
        yield (
            f"REGISTER QUERY one{i} AS SELECT SUM(n) AS n FROM s [RANGE {span} SECONDS SLIDE 1 SECOND] "
            f"WHERE symbol = {symbol} HAVING SUM(n) > {floor:.3f} EMIT CHANGES"
        )
    for i in range(100):
        span = 10 * (1 + i % 6)
        floor = each * span + 3 * (each * span * 60) ** 0.5 + i / 1_000
        yield (
            f"REGISTER QUERY each{i} AS SELECT symbol, SUM(n) AS n FROM s [RANGE {span} SECONDS SLIDE 10 SECONDS] "
            f"GROUP BY symbol HAVING SUM(n) > {floor:.3f} EMIT CHANGES"
        )


def _push_paced(port: int, seconds: float, per_second: int, keys: int, batch: int) -> list[float]:
    """Events whose times go on with the clock, on some connections."""
    some = [events(seed, batch, keys) for seed in range(16)]
    steps = np.linspace(0, batch / per_second * SECOND, batch, endpoint=False).astype(np.int64)
    numbers = count()

    def make(_: int) -> bytes:
        number = next(numbers)
        at = BEGIN + SECOND + int(number * batch / per_second * SECOND)
        return push_arrow(some[number % 16].set_column(0, "ts", pa.array(at + steps, pa.timestamp("us"))))

    with ThreadPoolExecutor(PUSHERS) as pool:
        rate = per_second / batch / PUSHERS
        found = [pool.submit(ask_paced, port, seconds, rate, make) for _ in range(PUSHERS)]
        return [each for one in found for each in one.result()]


def _mixed(sizes: Sizes) -> list[dict[str, Any]]:
    script = SCRIPT + ";\n".join(rules(1_000, sizes.rate))
    with serving(script, "--checkpoint-seconds", str(sizes.checkpoint)) as (server, _):
        cpu, half = server.cpu, 0.0
        asked = [look_up("sums", key) for key in range(1_000)]
        _push_paced(server.port, 1.0, sizes.rate // 10, 1_000, 5_000)
        with (
            beside(follow, server.port, sizes.mixed, 50) as followed,
            beside(_push_paced, server.port, sizes.mixed, sizes.rate, 1_000, 5_000) as pushed,
            beside(_look_paced, server.port, sizes.mixed, asked) as looked,
        ):
            time.sleep(sizes.mixed / 2)
            half = server.memory
            size, pushes, look_ups = followed(), pushed(), looked()
        cpu = server.cpu - cpu
        memory = {"memory": server.memory, "grown": server.memory - half}
        return [
            {"what": "all at once", "unit": "events", "rate": len(pushes) * 5_000 / sizes.mixed,
             "cpu_rate": len(pushes) * 5_000 / cpu, **_latencies(pushes), **memory},
            {"what": "", "unit": "look-ups", "rate": len(look_ups) / sizes.mixed, **_latencies(look_ups)},
            {"what": "", "unit": "bytes to subscriptions", "rate": size / sizes.mixed},
        ]  # fmt: skip


def _look_paced(port: int, seconds: float, asked: list[bytes]) -> list[float]:
    return ask_paced(port, seconds, 1_000, lambda number: asked[number % len(asked)])


def _start(sizes: Sizes) -> dict[str, Any]:
    """The time to come back after a clean stop."""
    script = SCRIPT + ";\n".join(
        f"REGISTER QUERY q{i} AS SELECT symbol, SUM(n) AS n, MAX(n) AS most FROM s "
        f"[RANGE {60 + i} SECONDS] GROUP BY symbol" for i in range(sizes.queries)
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder, batch = Path(name), min(200_000, sizes.state_events)
        server = Server(folder, script)
        caller = Caller(server.port)
        for number in range(sizes.state_events // batch):
            caller.ask(push_arrow(events(number, batch, sizes.keys, BEGIN + number * SECOND // 10)))
        [told] = json.loads(caller.ask(request("GET", "/streams")))
        server.stop()
        server = Server(folder, script)
        try:
            what = f"start with {told['bytes'] / 1e6:,.0f} MB of state"
            return {"what": what, "unit": "", "seconds": server.seconds, "memory": server.memory}
        finally:
            server.kill()
