"""What an engine says of joins with tables beside their answers: order, keys, names, refusals, restarts and rewinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin import Engine, MuntinError, TableQuery

SECOND = 1_000_000
CREATE = """
CREATE STREAM p (ts BIGINT, k BIGINT, g VARCHAR, v BIGINT) TIMESTAMP BY ts;
CREATE TABLE t (k INTEGER, most BIGINT, tier VARCHAR, PRIMARY KEY (k));
CREATE TABLE r (id BIGINT, k BIGINT, span INTERVAL, floor BIGINT, PRIMARY KEY (id));
"""
W = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
ABOVE = f"SELECT p.k, SUM(p.v) AS s, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most"
RULES = (
    f"SELECT r.id, SUM(p.v) AS s FROM p {W} AS p JOIN r ON p.k = r.k GROUP BY r.id HAVING SUM(p.v) > r.floor"
)


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.execute(CREATE)
    engine.load("t", {"k": [1, 2, 3], "most": [0, 100, None], "tier": ["a", "b", "c"]})
    engine.load("r", {"id": [9, 8, 7, 6], "k": [1, 1, 2, None], "span": [None] * 4, "floor": [0, 0, 0, 0]})
    engine.register_many({"above": ABOVE, "rules": RULES})
    engine.push("p", {"ts": [1, 2, 3, SECOND], "k": [2, 1, 3, 2**40], "g": ["x"] * 4, "v": [5, 6, 7, 1]})
    return engine


def test_rows_stand_in_the_order_of_the_stream_then_of_the_table(engine: Engine) -> None:
    assert engine.lookup("rules", at=SECOND)["id"].to_pylist() == [7, 9, 8]
    engine.execute("DELETE FROM r WHERE id = 9; INSERT INTO r VALUES (9, 1, NULL, 0)")
    assert engine.lookup("rules", at=SECOND)["id"].to_pylist() == [7, 8, 9]


def test_look_up(engine: Engine) -> None:
    """By key, at an instant, as a plain value; always with the table as it is now."""
    assert engine.lookup("above", at=SECOND)["k"].to_pylist() == [1]
    assert engine.lookup("rules", key=[8, 7, 5], at=SECOND)["id"].to_pylist() == [7, 8]
    assert (engine.value("rules", key=8, at=SECOND), engine.value("rules", key=5, at=SECOND)) == (6, None)
    engine.execute("INSERT INTO t VALUES (2, 1, 'b')")
    assert engine.lookup("above", at=SECOND)["k"].to_pylist() == [2, 1]
    assert engine.execute(ABOVE.replace("> t.most", "<> t.most")).num_rows == 2
    with pytest.raises(MuntinError, match="a key of this query is \\(id\\)"):
        engine.lookup("rules", key=(1, 2))
    with pytest.raises(MuntinError, match="'one' is not a value of key 'id'"):
        engine.lookup("rules", key="one")
    with pytest.raises(MuntinError, match="has a value for each key; give one key"):
        engine.value("rules")
    with pytest.raises(MuntinError, match="cannot answer 'above': it joins a table; use lookup"):
        engine.lookup_many(["above"])


def test_integers_of_another_width_match_where_they_are_equal(engine: Engine) -> None:
    """The table's key is an INTEGER, the stream's a BIGINT, of which 2**40 is no INTEGER."""
    assert engine.advance(SECOND)["above"]["k"].to_pylist() == [1]


def test_a_change_counts_for_instants_after_the_watermark(engine: Engine) -> None:
    engine.push("p", {"ts": [2_500_000], "k": [3], "g": ["x"], "v": [1]})
    engine.execute("INSERT INTO t VALUES (2, 1, 'b')")
    told = engine.advance()["above"]
    assert [(end.second, k) for end, k in zip(told["window_end"].to_pylist(), told["k"].to_pylist(), strict=True)] == [
        (1, 1), (2, 1)
    ]  # fmt: skip
    engine.push("p", {"ts": [3 * SECOND], "k": [3], "g": ["x"], "v": [1]})
    assert engine.advance()["above"]["k"].to_pylist() == [2, 1]


def test_what_is_held_waits_for_its_instant(engine: Engine, tmp_path: Path) -> None:
    """Through a restart, and given out no earlier than it is asked for."""
    engine.push("p", {"ts": [2_500_000], "k": [3], "g": ["x"], "v": [1]})
    engine.execute("DELETE FROM t")
    engine.checkpoint(tmp_path / "state")
    for each in (engine, Engine.restore(tmp_path / "state")):
        assert [end.second for end in each.advance(SECOND)["above"]["window_end"].to_pylist()] == [1]
        assert [end.second for end in each.advance()["above"]["window_end"].to_pylist()] == [2]
        assert each.stats()["queries"]["above"]["emitted"] == 2


def test_a_table_that_is_joined_is_not_dropped(engine: Engine) -> None:
    with pytest.raises(MuntinError, match="table 't' is joined by query 'above'; drop its queries first"):
        engine.execute("DROP TABLE t")
    with pytest.raises(MuntinError, match="stream 'p' is read by query 'above'"):
        engine.execute("DROP STREAM p")
    with pytest.raises(MuntinError, match="joined by query 'new'"):
        engine.execute(f"DROP QUERY above; REGISTER QUERY new AS {ABOVE}; DROP TABLE t")
    engine.execute("DROP QUERY above; DROP TABLE t")
    assert list(engine.tables) == ["r"]
    engine.check()


def test_a_rewind_forgets_what_was_held(engine: Engine) -> None:
    engine.push("p", {"ts": [3 * SECOND], "k": [3], "g": ["x"], "v": [1]})
    engine.execute("DELETE FROM t")
    engine.rewind("p", SECOND)
    engine.load("t", {"k": [1], "most": [0], "tier": ["a"]})
    engine.push("p", {"ts": [SECOND, 2 * SECOND], "k": [1, 1], "g": ["x", "x"], "v": [5, 5]})
    told = engine.advance()["above"]
    assert [end.second for end in told["window_end"].to_pylist()] == [2]


def test_what_there_is_to_see(engine: Engine) -> None:
    assert isinstance(engine.queries["above"], TableQuery)
    assert engine.stats()["queries"]["rules"]["stream"] == "p"
    assert engine.explain("rules").startswith("rules: joins r by k\n\ngroup ")
    assert engine.coverage("above").complete
    assert "slices by k" in engine.execute(f"EXPLAIN {ABOVE}")


def test_rows_without_a_window_are_counted_and_named(engine: Engine) -> None:
    engine.execute("CREATE TABLE u (id BIGINT, k BIGINT, span INTERVAL, PRIMARY KEY (id))")
    engine.execute(
        "INSERT INTO u VALUES (1, 1, INTERVAL '2 seconds'), (2, 1, NULL), (3, 2, INTERVAL '9 seconds'), "
        "(4, 2, INTERVAL '1500 milliseconds')"
    )
    text = "SELECT u.id, COUNT(*) AS n FROM p [RANGE u.span UP TO 5 SECONDS SLIDE 1 SECOND] AS p JOIN u ON p.k = u.k"
    engine.register(f"{text} GROUP BY u.id", "q")
    assert engine.lookup("q", at=SECOND)["id"].to_pylist() == [1]
    assert engine.stats()["queries"]["q"]["without_window"] == 3
    assert "without_window" not in engine.stats()["queries"]["above"]
    assert "q: joins u by k; 3 rows of u have no window, the first with id = 2" in engine.explain("q")
    engine.execute("DELETE FROM u WHERE id > 1")
    assert engine.stats()["queries"]["q"]["without_window"] == 0


def test_no_backfill(engine: Engine) -> None:
    with pytest.raises(MuntinError, match="joins a table, and takes no backfill"):
        engine.register(ABOVE, "q", backfill={"ts": [0], "k": [1], "g": ["x"], "v": [1]})


def test_rows_without_a_value_are_left_out(engine: Engine) -> None:
    engine.execute("INSERT INTO t VALUES (1, 9223372036854775807, 'a')")
    engine.register(
        ABOVE.replace("t.most FROM", "t.most + SUM(p.v) AS x FROM").replace("> t.most", "> 1"), "sum"
    )
    with pytest.warns(RuntimeWarning, match="query 'sum' leaves out 1 row"):
        assert engine.lookup("sum", at=SECOND)["k"].to_pylist() == [2, 3]
    assert engine.stats()["queries"]["sum"]["overflows"] == 1


def test_rules_of_a_table_that_becomes_empty(engine: Engine) -> None:
    """Their slots are given to others, whose keys come later."""
    engine.execute("INSERT INTO r (id, k, floor) VALUES (9, 77, 0)")
    engine.advance(SECOND)
    engine.execute("DELETE FROM r")
    engine.push("p", {"ts": [2 * SECOND], "k": [77], "g": ["x"], "v": [5]})
    assert "rules" not in engine.advance(3 * SECOND)
    engine.execute("INSERT INTO r (id, k, floor) VALUES (4, 77, 1)")
    engine.push("p", {"ts": [3 * SECOND], "k": [1], "g": ["x"], "v": [5]})
    assert engine.advance(4 * SECOND)["rules"]["id"].to_pylist() == [4]
    engine.check()
