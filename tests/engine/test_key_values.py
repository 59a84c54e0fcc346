"""`value` of one key is what `lookup` says, whatever happened to the state since the last time."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import MuntinError

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k {kind}, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
QUERIES = {
    "sum": "SELECT k, SUM(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "count": "SELECT k, COUNT(n) AS v FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "events": "SELECT k, COUNT(*) AS v FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "least": "SELECT k, MIN(n) AS v FROM s [RANGE 6 SECONDS TO 2 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "mean": "SELECT k, AVG(n) AS v FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING AVG(n) > 2",
}
events = st.lists(
    st.tuples(st.integers(0, 3_999), st.integers(0, 5), st.none() | st.integers(-3, 9)), max_size=12
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 6), events),
        st.tuples(st.just("advance")),
        st.tuples(st.just("change"), st.sampled_from(sorted(QUERIES))),
        st.tuples(st.just("restore")),
    ),
    max_size=12,
)


@given(st.sampled_from(["BIGINT", "VARCHAR"]), steps)
def test_a_key_is_read_as_it_is_looked_up(kind: str, steps: list[tuple]) -> None:
    engine = Engine(backlog_bytes=0)
    engine.execute(STREAM.format(kind=kind))
    engine.register_many(QUERIES)
    second = 0
    for step in steps:
        match step:
            case ("push", silence, rows):
                second += silence
                at = [second * SECOND + 1000 * offset for offset, _, _ in rows]
                engine.push(
                    "s",
                    {"ts": at, "k": [key_of(kind, key) for _, key, _ in rows], "n": [n for _, _, n in rows]},
                )
            case ("advance",):
                engine.advance()
            case ("change", name):
                if name in engine.queries:
                    engine.drop(name)
                else:
                    engine.register(QUERIES[name], name)
            case ("restore",):
                with TemporaryDirectory() as folder:
                    engine.checkpoint(Path(folder) / "state")
                    engine = Engine.restore(Path(folder) / "state", backlog_bytes=0)
        # one instant for each query, so that what is found for it is there to be used again
        for name in engine.queries:
            at = None if len(name) % 2 else second * SECOND
            for key in range(7):
                found = value_of(engine, name, key_of(kind, key), at)
                assert found == looked_up(engine, name, key_of(kind, key), at)


def key_of(kind: str, key: int) -> int | str:
    return key if kind == "BIGINT" else "a key of many letters, number "[: 9 * (key % 4)] + str(key)


def value_of(engine: Engine, name: str, key: int | str, at: int | None) -> object:
    try:
        return engine.value(name, key=key, at=at)
    except MuntinError:
        return MuntinError


def looked_up(engine: Engine, name: str, key: int | str, at: int | None) -> object:
    try:
        found = engine.lookup(name, key=key, at=at)["v"].to_pylist()
    except MuntinError:
        return MuntinError
    return found[0] if found else None
