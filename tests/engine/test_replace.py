"""CREATE OR REPLACE QUERY: the query of a name is another one from then on, or the old one stays."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from muntin import Engine
from muntin.errors import MuntinError

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts"
TEXTS = (
    "SELECT COUNT(*) AS v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]", "SELECT k, SUM(n) AS v FROM s [ROWS 3] GROUP BY k",
    "SELECT MAX(n) AS v FROM s [RANGE 1 MINUTE]",
)  # fmt: skip
BAD = (
    "SELECT SUM(w) AS v FROM s [ROWS 3]",
    "SELECT /*+ SYNOPSIS(slices) */ SUM(n) AS v FROM s [ROWS 3]",
    "SELECT",
)


@pytest.mark.parametrize("seed", range(20))
def test_the_queries_are_those_of_one_statement_after_the_other(seed: int) -> None:
    """Scripts of statements, some of them bad: a script counts wholly, or not at all."""
    dice, engine, queries = random.Random(seed), Engine(), dict[str, str]()
    engine.execute(STREAM)
    for turn in range(20):
        engine.push("s", {"ts": [turn * 1_000_000], "k": ["a"], "n": [turn]})
        script, wanted = [], dict(queries)
        for _ in range(dice.randrange(1, 4)):
            name, text = dice.choice("abc"), dice.choice(TEXTS if dice.random() < 0.8 else BAD)
            kind = dice.choice(["CREATE OR REPLACE", "CREATE OR REPLACE", "REGISTER", "DROP"])
            script.append(f"DROP QUERY {name}" if kind == "DROP" else f"{kind} QUERY {name} AS {text}")
            is_bad = (
                (name not in wanted)
                if kind == "DROP"
                else text in BAD or (kind == "REGISTER" and name in wanted)
            )
            if is_bad:
                break
            wanted.pop(name, None)
            if kind != "DROP":
                wanted[name] = text
        if is_bad:
            with pytest.raises(MuntinError):
                engine.execute("; ".join(script))
        else:
            engine.execute("; ".join(script))
            queries = wanted
        engine.check()
        registered = engine._shards["s"].state.registrations
        assert {name: each.query.text for name, each in registered.items()} == queries
    engine.push("s", {"ts": [20_000_000], "k": ["a"], "n": [0]})
    engine.advance(21_000_000)
    for name in queries:
        assert engine.lookup(name).num_rows == 1


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE OR REPLACE STREAM s (ts BIGINT) TIMESTAMP BY ts", "only queries are replaced"),
        (f"CREATE OR REPLACE QUERY q AS {TEXTS[0]} BACKFILL 'x'", "takes no BACKFILL"),
        ("CREATE OR REPLACE QUERY q SELECT 1", "expected AS"),
        ("CREATE OR QUERY q AS SELECT 1", "write CREATE OR REPLACE QUERY"),
    ],
)
def test_what_cannot_be_replaced_is_said(statement: str, reason: str) -> None:
    engine = Engine()
    engine.execute(STREAM)
    with pytest.raises(MuntinError, match=reason):
        engine.execute(statement)


def test_a_view_is_not_replaced_by_a_query(tmp_path: Path) -> None:
    engine = Engine(archive=tmp_path)
    engine.execute(STREAM)
    engine.execute("CREATE STREAM r (ts BIGINT, k VARCHAR) TIMESTAMP BY ts")
    engine.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT s.k, n FROM s [RANGE 1 MINUTE] JOIN r [RANGE 1 MINUTE] ON s.k = r.k "
        "EVERY 1 SECOND"
    )
    with pytest.raises(MuntinError, match="'v'"):
        engine.execute(f"CREATE OR REPLACE QUERY v AS {TEXTS[0]}")
    assert engine.execute("SELECT k, n FROM v").num_rows == 0
