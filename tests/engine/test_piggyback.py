"""Windows of one size that are due together are looked up once, and answer like the reference all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casefile import Advance, Case, Checkpoint, Drop, Push, Register
from muntin import Engine
from muntin.query import Input
from muntin.shard.read.shared import hosted
from muntin.store.needs import Need
from muntin.structure.synopsis import Asked, Synopsis
from muntin.window import Window
from replay import Pair

SECOND = 1_000_000
CREATE = "CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
COUNT, TOTAL = Need(Input(None), "count"), Need(Input(None), "sum")

CALLS = st.sampled_from(("SUM(v) AS a", "MAX(v) AS a", "AVG(v) AS a, COUNT(*) AS c", "MEDIAN(v) AS a"))
ACTIONS = st.sampled_from(("register", "register", "drop", "push", "push", "push", "advance", "checkpoint"))


def window(size: int, slide: int, to: int = 0) -> Window:
    return Window("time", size, to, slide)


def asked(*instants: int, needs: tuple[Need, ...] = (COUNT,)) -> Asked:
    return Asked(np.array(instants), needs)


def test_who_rides_on_whom() -> None:
    """On the one of its size that is due most often, if that is due whenever it is."""
    often, seldom, odd = window(12, 2), window(12, 4), window(12, 3)
    other, historical = window(8, 4), window(12, 4, to=1)
    hosts, rides = hosted(
        {
            seldom: asked(4, 8, needs=(TOTAL,)),
            odd: asked(3, 6),
            often: asked(2, 4, 6, 8),
            other: asked(4, 8),
            historical: asked(4, 8),
        }
    )
    assert set(hosts) == {often, odd, other, historical}
    assert set(hosts[often].needs) == {COUNT, TOTAL}
    assert hosts[odd].needs == (COUNT,)
    assert list(rides) == [seldom]
    assert rides[seldom].host == often
    assert rides[seldom].places.tolist() == [1, 3]


def test_equal_instants_are_taken_whole() -> None:
    _, rides = hosted({window(12, 2): asked(12, 24), window(12, 3): asked(12, 24)})
    ((_, ride),) = rides.items()
    assert ride.places is None


def test_an_instant_that_the_host_lacks_is_looked_up() -> None:
    """Of a query that came later fewer windows are due, though it moves more often."""
    hosts, rides = hosted({window(12, 2): asked(8, 10, 12), window(12, 4): asked(4, 8, 12)})
    assert len(hosts) == 2
    assert not rides


@pytest.mark.parametrize("by", ["", " GROUP BY k"])
def test_one_look_up_serves_all_windows_of_a_size(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of them there is."""
    engine = Engine(adaptive=False)
    engine.execute(CREATE)
    keys = "k, " if by else ""
    for slide in (1, 2, 3, 4, 6):
        engine.register(
            f"SELECT {keys}SUM(v) AS a FROM s [RANGE 12 SECONDS SLIDE {slide} SECONDS]{by}", f"q{slide}"
        )
    engine.push("s", {"ts": [at * SECOND for at in range(30)], "k": ["a", "b"] * 15, "v": range(30)})
    seen: list[list[Window]] = []
    for kind in {type(each) for each in engine._shards["s"].state.synopses.values()}:
        original = kind.lookup_all

        def look_up_all(
            self: Synopsis[Any], asked: dict[Window, Asked], width: int, original: Any = original
        ) -> Any:
            seen.append(list(asked))
            return original(self, asked, width)

        monkeypatch.setattr(kind, "lookup_all", look_up_all)
    answers = engine.advance()
    assert set(answers) == {f"q{slide}" for slide in (1, 2, 3, 4, 6)}
    assert seen
    assert {tuple(windows) for windows in seen} == {(window(12 * SECOND, SECOND),)}


@pytest.mark.parametrize("step", [2, 20])
@pytest.mark.parametrize("by", ["", " GROUP BY k"])
def test_completeness_is_a_windows_own(by: str, step: int) -> None:
    """The host came later and on a finer grid: its window is not covered yet, that of the one on it is."""
    pair = Pair(Case("completeness", (CREATE,), ()))
    keys = "k, " if by else ""
    pair.take(Register("seldom", f"SELECT {keys}SUM(v) AS a FROM s [RANGE 12 SECONDS SLIDE 4 SECONDS]{by}"))
    pair.take(Push("s", {"ts": [0, 5 * SECOND, 7 * SECOND], "k": ["a"] * 3, "v": [1, 2, 4]}))
    pair.take(Register("often", f"SELECT {keys}SUM(v) AS a FROM s [RANGE 12 SECONDS SLIDE 2 SECONDS]{by}"))
    pair.take(Push("s", {"ts": [13 * SECOND, 30 * SECOND], "k": ["a"] * 2, "v": [8, 16]}))
    complete: dict[str, list[bool]] = {"seldom": [], "often": []}
    for until in range(step, 21, step):
        for name, answer in pair.engine.advance(until * SECOND).items():
            complete[name] += answer["complete"].to_pylist()
    assert complete["seldom"] == [True] * 5
    assert complete["often"] == [False] * 7 + [True]  # from 6 s on; that of 20 s is the first it saw all of


@settings(max_examples=max(1, settings().max_examples // 3))
@given(data=st.data(), is_keyed=st.booleans())
def test_answers_are_those_of_the_reference(data: st.DataObject, is_keyed: bool) -> None:
    """Few sizes, many slides: windows come and go, ride or do not, with ties, silence and events out of order."""
    pair, names, made, now = Pair(Case("piggybacked", (CREATE,), ())), [], 0, 0
    for _ in range(data.draw(st.integers(4, 20))):
        match data.draw(ACTIONS):
            case "register":
                size, slide = (
                    data.draw(st.sampled_from((6, 12))),
                    data.draw(st.sampled_from((1, 2, 3, 4, 6, 12))),
                )
                calls, to = data.draw(CALLS), data.draw(st.sampled_from(("", "", " TO 2 SECONDS")))
                frame = f"[RANGE {size} SECONDS{to} SLIDE {slide} SECONDS]"
                select = (
                    f"SELECT k, {calls} FROM s {frame} GROUP BY k"
                    if is_keyed
                    else f"SELECT {calls} FROM s {frame}"
                )
                names.append(f"q{made}")
                pair.take(Register(names[-1], select))
                made += 1
            case "drop" if names:
                pair.take(Drop(names.pop(data.draw(st.integers(0, len(names) - 1)))))
            case "push":
                steps = data.draw(st.lists(st.sampled_from((-1, 0, 0, 1, 2, 9)), min_size=1, max_size=6))
                times = []
                for step in steps:
                    now += step
                    times.append(now * SECOND)
                keys = [data.draw(st.sampled_from("abc")) for _ in times]
                pair.take(Push("s", {"ts": times, "k": keys, "v": list(range(len(times)))}))
                now = max(now, max(times) // SECOND)
            case "advance":
                pair.take(Advance(None))
            case "checkpoint":
                pair.take(Checkpoint())
        pair.engine.check()
    pair.take(Advance((now + 20) * SECOND))
