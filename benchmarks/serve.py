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
from benchmarks.serve_client import (
    ARROW,
    LINES,
    Caller,
    ask_open,
    ask_paced,
    beside,
    follow,
    look_up,
    request,
)

COLUMNS = [
    Column("what", "load"), Column("unit", "counted"), Column("rate", "per second", ",.0f"),
    Column("cpu_rate", "per CPU s of the server", ",.0f"), Column("p50", "p50, ms", ".2f"),
    Column("p99", "p99, ms", ".2f"), Column("client_cpu", "CPU s of clients, a second", ".2f"),
    Column("seconds", "ready after, s", ".1f"),
    Column("memory", "memory of the server, MB", ",.0f"), Column("grown", "of that grown in the second half", ",.0f"),
]  # fmt: skip
NOTES = """A server process on an empty folder; clients are other processes on the same machine and keep their
connections. CPU and memory of the server are those of both its processes.
The log is forced to disk before a push is answered. `look-ups`: of one key of {keys:,}, one after the
other on one connection (latencies), then on {connections} connections (rates). `Arrow pushes`, `JSON lines`: batches
of {arrow_rows:,} and {json_rows:,} events of three columns, one query with keys, {pushers} connections. `all at once`:
{rate:,} events a second in batches of 5,000 as Arrow, 1,000 queries (900 compare a sum over one symbol with a
threshold by the second, 100 one for each symbol by ten seconds, EMIT CHANGES), beside them 1,000 look-ups a second
and 50 subscriptions to all answers, a checkpoint every {checkpoint} seconds, for {mixed} seconds; a look-up that is
asked late because those before were slow counts from when it was due. Clients and server share the machine's cores:
what the clients take is not the server's. `start`: until `/ready` says so, with {queries:,} queries and the state that
stands beside it; after SIGTERM, and after SIGKILL, at which the log holds what was pushed since the last checkpoint."""
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, symbol BIGINT, n DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND;
REGISTER QUERY sums AS SELECT symbol, SUM(n) AS n, COUNT(*) AS many FROM s [RANGE 10 MINUTES SLIDE 1 SECOND]
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
    state_events: int = 17_000_000


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
    def _processes(self) -> list[psutil.Process]:
        """It, and the one that sends answers to subscriptions."""
        return [self._seen, *self._seen.children(recursive=True)]

    @property
    def cpu(self) -> float:
        """Seconds of work so far."""
        spent = [each.cpu_times() for each in self._processes]
        return float(sum(each.user + each.system for each in spent))

    @property
    def memory(self) -> float:
        """Megabytes."""
        return float(sum(each.memory_info().rss for each in self._processes) / 1e6)

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
    rows += _start(sizes)
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
        taken: list[float] = found()[0]
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


class Batches:
    """Requests that push batches one after the other in event time: made once, of which only the times change."""

    def __init__(self, rows: int, keys: int, per_second: int, since: int):
        self._span, self._numbers, self._since = rows / per_second * SECOND, count(), since
        self._steps = np.linspace(0, self._span, rows, endpoint=False).astype(np.int64)
        self._held = []
        for seed in range(16):
            times = pa.array(BEGIN + self._steps, pa.timestamp("us"))
            body = bytearray(push_arrow(events(seed, rows, keys).set_column(0, "ts", times)))
            place = body.index((BEGIN + self._steps).tobytes())
            self._held.append((body, np.frombuffer(body, np.int64, rows, place)))

    def next(self, _: int) -> bytes:
        """The request that comes next; until it is asked for 16 more."""
        number = next(self._numbers)
        body, times = self._held[number % len(self._held)]
        np.add(self._steps, self._since + int(number * self._span), out=times)
        return bytes(body)


def _push_paced(
    port: int, seconds: float, per_second: int, keys: int, batch: int, since: int = BEGIN
) -> list[float]:
    """Events whose times go on with the clock, on some connections."""
    batches, rate = Batches(batch, keys, per_second, since), per_second / batch / PUSHERS
    with ThreadPoolExecutor(PUSHERS) as pool:
        found = [pool.submit(ask_paced, port, seconds, rate, batches.next) for _ in range(PUSHERS)]
        return [each for one in found for each in one.result()]


def _mixed(sizes: Sizes) -> list[dict[str, Any]]:
    script = SCRIPT + ";\n".join(rules(1_000, sizes.rate))
    with serving(script, "--checkpoint-seconds", str(sizes.checkpoint)) as (server, _):
        cpu, half = server.cpu, 0.0
        asked = [look_up("sums", key) for key in range(1_000)]
        _push_paced(server.port, 1.0, sizes.rate // 10, 1_000, 5_000)
        with (
            beside(follow, server.port, sizes.mixed, 50) as followed,
            beside(
                _push_paced, server.port, sizes.mixed, sizes.rate, 1_000, 5_000, BEGIN + 10 * SECOND
            ) as pushed,
            beside(ask_open, server.port, sizes.mixed, 1_000, sizes.connections, asked) as looked,
        ):
            time.sleep(sizes.mixed / 2)
            half = server.memory
            (pushes, push_cpu), (look_ups, look_cpu), (size, follow_cpu) = pushed(), looked(), followed()
        cpu = server.cpu - cpu
        memory = {"memory": server.memory, "grown": server.memory - half}
        return [
            {"what": "all at once", "unit": "events", "rate": len(pushes) * 5_000 / sizes.mixed,
             "cpu_rate": len(pushes) * 5_000 / cpu, **_latencies(pushes), **memory,
             "client_cpu": push_cpu / sizes.mixed},
            {"what": "", "unit": "look-ups", "rate": len(look_ups) / sizes.mixed, **_latencies(look_ups),
             "client_cpu": look_cpu / sizes.mixed},
            {"what": "", "unit": "bytes to subscriptions", "rate": size / sizes.mixed,
             "client_cpu": follow_cpu / sizes.mixed},
        ]  # fmt: skip


def _start(sizes: Sizes) -> list[dict[str, Any]]:
    """The time to come back after a clean stop, and after a kill."""
    # a query of any instant, which takes all events, beside many that give out nothing yet
    script = f"{SCRIPT}REGISTER QUERY most AS SELECT MAX(n) AS n FROM s [RANGE 1 DAY];\n" + ";\n".join(
        f"REGISTER QUERY q{i} AS SELECT symbol, SUM(n) AS n, MAX(n) AS most FROM s "
        f"[RANGE {60 + i} SECONDS SLIDE 1 HOUR] GROUP BY symbol" for i in range(sizes.queries)
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder, batch = Path(name), min(200_000, sizes.state_events)
        server = Server(folder, script)
        many = sizes.state_events // batch
        caller = Caller(server.port)
        for number in range(many):
            caller.ask(push_arrow(events(number, batch, sizes.keys, BEGIN + number * SECOND // 10)))
        [told] = json.loads(caller.ask(request("GET", "/streams")))
        server.stop()
        server, rows = Server(folder, script, "--checkpoint-seconds", "1000"), list[dict[str, Any]]()
        what = f"start with {told['bytes'] / 1e6:,.0f} MB of state"
        rows.append({"what": what, "unit": "", "seconds": server.seconds, "memory": server.memory})
        caller, end, again = Caller(server.port), time.perf_counter() + sizes.seconds, 0
        while time.perf_counter() < end:
            caller.ask(push_arrow(events(again, batch, sizes.keys, BEGIN + (many + again) * SECOND // 10)))
            again += 1
        server.kill()
        server = Server(folder, script)
        try:
            [found] = json.loads(Caller(server.port).ask(request("GET", "/streams")))
            if found["events"] != told["events"] + again * batch:
                raise AssertionError(f"{found} lacks events that were acknowledged")
            what = f"start after a kill, {again * batch:,} events of {sizes.seconds:g} seconds done again"
            rows.append({"what": what, "unit": "", "seconds": server.seconds, "memory": server.memory})
            return rows
        finally:
            server.kill()
