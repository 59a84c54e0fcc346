"""Views of all kinds on Spark, without a JVM: after every micro-batch they hold what the naive answer says, whatever
was repeated, lost or started again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from kept_views import KINDS, STREAMS, Kept, Source

from effort import some_of
from muntin import Engine
from muntin.archive import Archive
from muntin.errors import ArchiveError, MuntinError
from muntin.spark.fed_operator import FedOperator
from muntin.spark.view_ledger import ViewLedger
from tests.view.naive import DELAYS, SECOND
from tests.view.test_failing_disk import FailingDisk


class Lost(Exception):
    """A worker, a driver, a disk: an attempt ends here."""


def lose_attempt(kept: Kept, events: Any, batch: int, random: np.random.Generator) -> None:
    """An attempt at a micro-batch that ends between two steps; its events come in another order than later on."""
    where = [(ViewLedger, "append"), (FedOperator, "advance"), (Archive, "update"), (Archive, "note_batch"),
             (ViewLedger, "is_due"), (ViewLedger, "write_base")][int(random.integers(6))]  # fmt: skip
    after = random.random() < 0.5
    before = getattr(*where)

    def ends(*given: Any, **named: Any) -> Any:
        if after:
            before(*given, **named)
        raise Lost

    shuffled = {name: [some[at] for at in random.permutation(len(some))] for name, some in events.items()}
    reached = None if batch == 0 else kept.stored.epoch.batch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*where, ends)
        with suppress(Lost):
            kept.keeper.take(kept.frame(shuffled if where[1] in ("append", "advance") else events), batch)
    assert kept.stored.epoch.batch in (reached, batch)


@pytest.mark.parametrize("seed", range(some_of(12, 9)))
@pytest.mark.parametrize("view", KINDS)
def test_holds_the_naive_answer(
    tmp_path: Path, view: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts are lost between any two steps, micro-batches come again, the driver is started anew."""
    kept, source = Kept(tmp_path, view), Source(seed)
    random, streams = np.random.default_rng(seed + 1000), kept.owned.query.streams
    few = int(random.integers(1, 6))
    monkeypatch.setattr("muntin.spark.view_ledger.outgrows", lambda entries, *_: entries >= few)
    most = 0
    for batch in range(30):
        events = source.next()
        while random.random() < 0.3:
            lose_attempt(kept, events, batch, random)
            if random.random() < 0.5:
                kept.start()
        taken = kept.frame(events)
        kept.keeper.take(taken, batch)
        assert taken.ran == 1
        if random.random() < 0.2:
            kept.start()
        if random.random() < 0.2:  # its commit was lost
            kept.keeper.take(kept.frame(events), batch)
        now = source.instant(streams)
        stored = kept.stored
        assert stored.now == (None if now is None else now * SECOND)
        if now is not None:
            wanted = source.answer(view, now)
            assert kept.held(stored) == wanted, (batch, now)
            most = max(most, sum(wanted.values()))
    assert most > 3
    with Archive.open(kept.owned.folder) as archive:
        archive.check()
    files = [path.name for path in (kept.owned.folder / "state").iterdir()]
    assert len(files) <= few + 2, "the ledger is kept short"
    engine = Engine(archive=tmp_path / "views")
    assert engine.execute(f'SELECT COUNT(*) AS n FROM "{view}"')["n"].to_pylist() == [
        sum(kept.held().values())
    ]
    engine.execute(f'DROP MATERIALIZED VIEW "{view}"')
    assert not kept.owned.folder.exists()


@pytest.mark.parametrize("view", ["except", "rows", "wide"])
def test_late_events(tmp_path: Path, view: str) -> None:
    """An event is late if it lies before the smallest watermark of the view's streams, as the micro-batches before left
    it; whatever its own stream says, and whatever its own micro-batch has brought."""
    kept, source, random = Kept(tmp_path, view), Source(0), np.random.default_rng(7)
    streams, watermark, late = kept.owned.query.streams, None, 0
    for batch in range(25):
        if random.random() < 0.3:
            kept.start()
        given = {
            name: [(int(at) * 500_000, "pqr"[int(random.integers(3))], 1000 * batch + row)
                   for row, at in enumerate(random.integers(max(0, 4 * batch - 12), 4 * batch + 4, 5))]
            for name in STREAMS
        }  # fmt: skip
        kept.keeper.take(kept.frame(given), batch)
        in_time = {
            name: [event for event in events if watermark is None or event[0] >= watermark]
            for name, events in given.items()
        }
        late += sum(len(given[name]) - len(in_time[name]) for name in streams)
        source.batches.append(in_time)
        for name, events in in_time.items():
            source.events[name] += events
        marks = [max(event[0] for event in source.events[name]) - DELAYS[name] * SECOND for name in streams]
        watermark = max(min(marks), -1 if watermark is None else watermark)
        now = source.instant(streams)
        assert kept.stored.now == now * SECOND
        assert kept.held() == source.answer(view, now)
    assert late > 20
    assert kept.keeper._held[1].late_events == late


def test_a_delay_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer one counts from then on, and the watermark does not move back."""
    kept = Kept(tmp_path, "rows except")
    kept.keeper.take(
        kept.frame({name: [(20 * SECOND, "p", 0)] for name in "ab"}), 0
    )  # a: up to 18, with its delay
    for name in "ab":
        monkeypatch.setitem(STREAMS, name, replace(STREAMS[name], delay=10 * SECOND))
    kept = Kept(tmp_path, "rows except")
    given = [(at * SECOND, "q", number) for number, at in enumerate((17, 18, 19, 27), 1)]
    kept.keeper.take(kept.frame({"a": given, "b": [(27 * SECOND, "z", 0)]}), 1)
    assert kept.stored.now == 18 * SECOND
    given = [(17 * SECOND, "q", 5), (40 * SECOND, "q", 6)]
    kept.keeper.take(kept.frame({"a": given, "b": [(40 * SECOND, "z", 0)]}), 2)
    assert kept.held() == Counter(
        [(2,), (3,), (4,)]
    )  # both events of 17 were late; p is among the last two of b


@pytest.mark.parametrize("view", ["except", "rows", "wide"])
def test_a_disk_that_fails(tmp_path: Path, view: str) -> None:
    """At each of its operations once; the micro-batch fails, or has been done, and comes again."""
    kept, source, number, failures, batch = Kept(tmp_path, view), Source(3), 0, 0, 0
    streams = kept.owned.query.streams
    with pytest.MonkeyPatch.context() as always:
        always.setattr("muntin.spark.view_ledger.outgrows", lambda entries, *_: entries >= 3)
        while number < 40:
            events = source.next()
            with pytest.MonkeyPatch.context() as patch:
                failing = FailingDisk(patch, number)
                try:
                    kept.keeper.take(kept.frame(events), batch)
                except (MuntinError, OSError):
                    assert failing.failed
            failures += failing.failed
            if batch % 2:
                kept.start()
            kept.keeper.take(kept.frame(events), batch)
            now = source.instant(streams)
            if now is not None:
                assert kept.held() == source.answer(view, now), number
            number, batch = number + (failing.failed > 0 or number > 12), batch + 1
            if not failing.failed and number > 20:
                break
    assert failures > 12


def test_what_is_read_is_checked(tmp_path: Path) -> None:
    """A ledger that lacks an entry, or has another one, is refused; nothing has changed."""
    kept, source = Kept(tmp_path, "rows"), Source(1)
    for batch in range(5):
        kept.keeper.take(kept.frame(source.next()), batch)
    path = kept.owned.folder / "state" / "0000000003.entry"
    whole, before = path.read_bytes(), kept.stored.epoch.number
    events = source.next()
    for content, message in (
        (None, "is missing"),
        (whole[:-1] + b"x", "checksum"),
        (b"MUNTVL09" + whole[8:], "format version 09; this muntin reads 01"),
    ):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        kept.start()
        with pytest.raises(ArchiveError, match=message):
            kept.keeper.take(kept.frame(events), 5)
        path.write_bytes(whole)
    assert kept.stored.epoch.number == before
    kept.start()
    kept.keeper.take(kept.frame(events), 5)
    assert kept.held() == source.answer("rows", source.instant(("a", "b")))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("SELECT a.k, a.n, b.n AS m", "n", "would now have k VARCHAR, n DOUBLE"),
        ("SELECT b.n AS m", "k", "has 'a.k' of view 'v' as string, not as"),
    ],
)  # fmt: skip
def test_types_that_have_changed(tmp_path: Path, text: str, kind: str, message: str) -> None:
    """They are named: in what the view keeps, and in what it keeps of its inputs."""
    statement = (
        f"CREATE MATERIALIZED VIEW v AS {text} FROM a [ROWS 9] JOIN b [ROWS 5] ON a.k = b.k EVERY 2 SECONDS"
    )
    kept, source = Kept(tmp_path, "v", statement), Source(1)
    kept.keeper.take(kept.frame(source.next()), 0)
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in list(STREAMS.items()):
            place = stream.schema.get_field_index(kind)
            schema = stream.schema.set(place, pa.field(kind, {"n": pa.float64(), "k": pa.int64()}[kind]))
            patch.setitem(STREAMS, name, type(stream)(name, schema, "ts", stream.delay))
        other = Kept(tmp_path, "v", statement)
        with pytest.raises(MuntinError, match=message):
            other.keeper.take(other.frame({name: [] for name in STREAMS}), 1)
    kept.start()
    kept.keeper.take(kept.frame(source.next()), 1)


def test_a_time_that_is_missing(tmp_path: Path) -> None:
    """It fails the micro-batch, with the name of the stream; nothing has changed."""
    kept = Kept(tmp_path, "rows")
    with pytest.raises(MuntinError, match="stream 'b': time column 'ts' is NULL in row 1"):
        kept.keeper.take(kept.frame({"a": [], "b": [(1, "p", 0), (None, "p", 1)]}), 0)
    kept.keeper.take(kept.frame({"a": [(0, "p", 0)], "b": [(1, "p", 0)]}), 0)
    assert kept.held() == Counter()


def test_who_may_go_on(tmp_path: Path) -> None:
    """The micro-batch after the last one, or that one again; and a view that is there."""
    kept, source = Kept(tmp_path, "except"), Source(2)
    with pytest.raises(ArchiveError, match="there is no view"):
        kept.keeper.take(kept.frame(source.next()), 1)
    for batch in range(3):
        kept.keeper.take(kept.frame(source.next()), batch)
    for batch in (0, 1, 4):
        with pytest.raises(ArchiveError, match="start with a new checkpoint"):
            kept.keeper.take(kept.frame(source.next()), batch)


def kill(folder: Path, view: str, kills: int, seed: int) -> str:
    command = [sys.executable, "-m", "tests.spark.view_crash", str(folder), view, str(kills), str(seed)]
    child = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


def test_a_few_kills(tmp_path: Path) -> None:
    """kill -9 at any step loses nothing and doubles nothing."""
    assert kill(tmp_path, "rows except", kills=3, seed=1).startswith("3 kills")


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("view", KINDS)
def test_many_kills(tmp_path: Path, view: str) -> None:
    """Two hundred and more in all."""
    assert kill(tmp_path, view, kills=40, seed=2).startswith("40 kills")
