"""The applications of `examples/`: short, and right by a second opinion."""

from __future__ import annotations

import re
import runpy
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("name", NAMES)
def test_short_and_listed(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) < 80
    assert f"({name}.py)" in (FOLDER / "README.md").read_text()


def test_fraud() -> None:
    """Who is over the limit of a day, and from which minute on, added up one by one."""
    parts = example("fraud")
    told = [line for line in parts["main"]() if "over_limit" in line]
    random, now, expected = Random(1), datetime(2026, 3, 2, 8), []
    spent: dict[str, Decimal] = {}
    while now < datetime(2026, 3, 2, 10):
        batch, now = parts["payments"](random, now), now + timedelta(minutes=1)
        over = {account for account, total in spent.items() if total > 1500}
        for account, amount in zip(batch["account"], batch["amount"], strict=True):
            spent[account] = spent.get(account, Decimal(0)) + amount
        expected += [(now, account, total) for account, total in spent.items()
                     if total > 1500 and account not in over]  # fmt: skip
    found = [re.fullmatch(r"(\S+) over_limit: (\w+) \{'spent': Decimal\('(.*)'\)\}", line) for line in told]
    assert [each and each.groups() for each in found] == [
        (f"{at:%H:%M:%S}", account, str(total))
        for at, account, total in expected
        if at < now  # closed
    ]


@pytest.mark.slow
def test_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server tells of the same alerts as the engine; money is texts there."""
    monkeypatch.syspath_prepend(str(FOLDER))
    told = example("served")["main"]()
    assert told == [re.sub(r"Decimal\(('.*?')\)", r"\1", line) for line in example("fraud")["main"]()]


@pytest.mark.spark
def test_on_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    told = example("on_spark")["main"]()
    assert told == [line for line in example("burn_rates")["main"]() if "burning" in line]
    assert len(told) == 2


def test_burn_rates() -> None:
    told = example("burn_rates")["main"]()
    assert [re.sub(r"^\d\d:\d\d|, z .*", "", line).strip() for line in told] == [
        "enter burning: search", "leave burning: search", "unusual: cart",
    ]  # fmt: skip
    assert "15:00" < told[0][:5] < "16:00" < told[1][:5] < "16:10"
    assert told[2].startswith("21:00")


def test_features() -> None:
    """A customer of the training set has online what it has there."""
    parts = example("features")
    orders = parts["history"]()
    rows = parts["training_set"](orders).to_pylist()
    assert len(rows) == 1_000
    for row in rows[:3]:
        online = parts["online"](orders, row["customer"], row["at"])
        assert online
        assert online == {name: row[name] for name in online}


def test_top_talkers() -> None:
    """The busiest of the last minute, and when the scan was found, as DuckDB has it."""
    parts = example("top_talkers")
    *told, last = parts["main"]()
    random = np.random.default_rng(1)
    flows = pa.concat_tables([parts["flows"](random, second) for second in range(0, 600, 10)])  # noqa: F841
    busiest = duckdb.sql(
        "SELECT source FROM flows WHERE ts >= TIMESTAMP '2026-03-02 12:08:50' AND ts < TIMESTAMP '2026-03-02 12:09:50' "
        "GROUP BY source ORDER BY sum(bytes) DESC, source LIMIT 10"
    ).fetchall()
    assert last == "busiest in the last minute: " + ", ".join(str(source) for (source,) in busiest)
    (scan,) = [line for line in told if "scan" in line]
    end = datetime.strptime(f"2026-03-02 {scan[:8]}", "%Y-%m-%d %H:%M:%S")
    [(targets,)] = duckdb.sql(
        f"SELECT count(DISTINCT target) FROM flows WHERE source = 42 AND target >= 1000 AND ts < '{end}'"
    ).fetchall()
    assert abs(targets - 1000) < 200
