"""Windows without keys that close together are located and read together: each query answers as it does alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine

SECOND = 1_000_000
SCRIPT = "CREATE STREAM s (ts TIMESTAMP, n BIGINT, x DOUBLE, t VARCHAR) TIMESTAMP BY ts DELAY 1 SECOND"
CALLS = (
    "SUM(n)", "COUNT(*)", "AVG(x)", "MIN(x)", "MAX(n)", "SUM(n) FILTER (WHERE x > 0)", "FIRST(n)", "LAST(t)",
    "QUANTILE(n, 0.5)", "QUANTILE(n, 0.9)", "COUNT(DISTINCT n)", "MODE(n)", "MIN(t)",
)  # fmt: skip


def queries(random: np.random.Generator) -> dict[str, str]:
    """Each of some of the calls, over windows of many sizes, slides and ends, and ROWS among them."""
    found = {}
    for i in range(30):
        calls = ", ".join(f"{call} AS c{j}" for j, call in enumerate(random.choice(CALLS, 3, replace=False)))
        to = " TO 1 SECOND" if i % 5 == 4 else ""
        window = (
            "[ROWS 50]"
            if i % 11 == 10
            else f"[RANGE {random.integers(2, 9)} SECONDS{to} SLIDE {1 + i % 3} SECONDS]"
        )
        found[f"q{i}"] = f"SELECT {calls} FROM s {window}"
    return found


@pytest.mark.parametrize("seed", range(4))
def test_as_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    texts = queries(random)
    together, alone = Engine(), {name: Engine() for name in texts}
    for engine in (together, *alone.values()):
        engine.execute(SCRIPT)
    together.register_many(texts)
    for name, engine in alone.items():
        engine.register(texts[name], name=name)
    answered = 0
    for second in range(14):
        many = int(random.integers(0, 40)) if second % 5 else 0  # silence, too
        batch = pa.table(
            {
                "ts": pa.array(second * SECOND + random.integers(0, SECOND, many), pa.timestamp("us")),
                "n": random.integers(-9, 9, many),
                "x": random.integers(-8, 8, many) / 4,
                "t": random.choice(["a", "b", "é"], many).astype(object)
                if many
                else pa.array([], pa.string()),
            }
        )
        for engine in (together, *alone.values()):
            engine.push("s", batch)
        found = together.advance()
        for name, engine in alone.items():
            expected = engine.advance()
            assert (name in found) == (name in expected)
            if name in found:
                assert found[name].equals(expected[name]), (name, texts[name])
                answered += found[name].num_rows
            assert together.lookup(name).equals(engine.lookup(name))
    assert answered > 100
