"""Compile ahead: where no kernel has been compiled yet, a second process compiles some while the demo compiles others.

Both write to the same cache, and each loads what the other has finished. Numba compiles one kernel at a time in a
process, so threads would not help. The second process begins with queries that have no keys: what they need is what
the demo comes to last.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muntin.demo.replay import Source, open_source
from muntin.engine import Engine
from muntin.kernels import times


def is_cold() -> bool:
    """Whether a cache is kept, and has nothing of what every push needs."""
    kernel: Any = times.ascends
    folder = kernel.stats.cache_path  # None: compiled code is not kept
    return folder is not None and not Path(folder).exists()


@contextmanager
def compiling_ahead(source: str, queries: int, seed: int) -> Iterator[None]:
    """Another process compiles meanwhile, if nothing has been compiled yet; it does not outlive this."""
    if not is_cold():
        yield
        return
    command = [sys.executable, "-m", "muntin.demo.ahead", source, str(queries), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def compile_for(source: Source) -> None:
    """Compile what the queries of a source need, those without keys first."""
    batch = next(source.batches)
    unkeyed = {name: text for name, text in source.queries.items() if "GROUP BY" not in text}
    for queries in (unkeyed, source.queries):
        _answer(source, queries, batch)


def _answer(source: Source, queries: Mapping[str, str], batch: Any) -> None:
    engine = Engine()
    engine.execute(source.create_statement)
    engine.register_many(queries)
    engine.push(source.stream, batch)
    for name, rows in source.tables.items():
        engine.load(name, rows)
    engine.lookup(next(iter(queries)))
    engine.advance()


if __name__ == "__main__":
    compile_for(open_source(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
