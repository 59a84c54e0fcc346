"""The demo's stream, served: `make serve` starts `muntin serve`, pushes trades to it, and says where to look.

Trades come at the pace of the clock, so that windows close before one's eyes. All is in a folder that goes with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from muntin.demo.trades import trade_queries
from muntin.testing import TradeStream

_RATE = 2_000.0  # trades a second
_QUERIES = 60
_ARROW = "application/vnd.apache.arrow.stream"


def demo_script(stream: TradeStream, folder: Path, queries: int = _QUERIES) -> str:
    """Trades that are pushed, the demo's queries, and a sink that writes one query's answers to files."""
    named = trade_queries(queries + 1, rate=stream.rate)
    del named["subscriptions_met"]  # which needs a table with 100,000 rows
    registered = [f"REGISTER QUERY {name} AS {text}" for name, text in named.items()]
    sink = f"CREATE SINK kept FROM market WITH (sink = 'files', path = '{folder}', format = 'json', seconds = 10)"
    return ";\n".join([f"{stream.create_statement} WITH (source = 'http')", *registered, sink])


@contextmanager
def served(folder: Path, script: str, listen: str) -> Iterator[str]:
    """A server as a process; its address."""
    path = folder / "demo.sql"
    path.write_text(script)
    command = [sys.executable, "-m", "muntin", "serve", str(path), "--data", str(folder / "data")]
    command += ["--folder", str(folder), "--listen", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            if not told.startswith("muntin listens at "):
                raise SystemExit(1)  # the process has said why
            yield told.split()[3].rstrip(";")
        finally:
            process.terminate()


def feed(address: str, batches: Iterator[pa.RecordBatch], seconds: float) -> int:
    """Push batches, a second's worth of trades each second; how many trades that were."""
    began, events = time.monotonic(), 0
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is this machine
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        body = sink.getvalue().to_pybytes()
        request = urllib.request.Request(
            f"{address}/streams/trades", body, {"Content-Type": _ARROW}, method="POST"
        )
        opener.open(request, timeout=60).close()
        events += batch.num_rows
        behind = events / _RATE - (time.monotonic() - began)
        if time.monotonic() - began > seconds:
            break
        time.sleep(max(0.0, behind))
    return events


def main(listen: str = "127.0.0.1:8088", seconds: float = float("inf")) -> None:
    """Serve until Ctrl-C."""
    stream = TradeStream(rate=_RATE)
    with tempfile.TemporaryDirectory(prefix="muntin-") as made:
        folder = Path(made)
        with served(folder, demo_script(stream, folder / "market"), listen) as address:
            print(f"trades flow into {address}; look at", flush=True)
            for path, what in (
                ("/docs", "every address, to try"),
                ("/queries", f"the {_QUERIES} queries"),
                ("/queries/market/answer", "one query's answer as of now"),
                ("/answers?query=market", "answers as windows close (curl -N)"),
                ("/ready", "sources and sinks"),
                ("/metrics", "counters for Prometheus"),
            ):
                print(f"  {address}{path:24} {what}")
            print(f"  {folder / 'market'}    files that a sink writes\nCtrl-C ends it.", flush=True)
            with suppress(KeyboardInterrupt):
                feed(address, stream.batches(batch_rows=int(_RATE / 5)), seconds)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8088")
