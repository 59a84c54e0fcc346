"""A disk that fails, at any one of its operations: every kind of view is brought up to date by the next advance."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from muntin import Engine
from muntin.archive import disk
from muntin.errors import ArchiveError, MuntinError
from tests.view.naive import SECOND, VIEWS, Twin, engine_with, held, is_complete


class FailingDisk:
    """Fails some of the operations that an archive does: the one of a number, or all from it on."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, once: bool = True):
        self.left, self.once, self.failed = number, once, 0
        write = disk.write
        for name in ("fsync", "replace", "open"):
            patch.setattr(disk.os, name, self._failing(getattr(os, name)))
        patch.setattr(disk, "open", self._failing(open), raising=False)
        for module in ("disk", "segment"):
            patch.setattr(f"muntin.archive.{module}.write", self._failing(write))
        patch.setattr(Path, "unlink", self._failing(Path.unlink))

    def _failing(self, call):
        def guarded(*given, **named):
            self.left -= 1
            if self.left == -1 or (self.left < -1 and not self.once):
                self.failed += 1
                raise OSError(errno.EIO, "Input/output error")
            return None if call is os.fsync else call(*given, **named)

        return guarded


@pytest.mark.parametrize("view", VIEWS)
def test_the_next_advance_brings_everything(tmp_path, view):
    """Each operation of an update fails once; then there is nothing new, and the view catches up all the same."""
    engine, twin, random, now = engine_with(tmp_path / "views", view), Twin(), np.random.default_rng(1), 0
    failures, number = 0, 0
    while True:
        step = (2, 2, 4, 3, 1)[number % 5]
        twin.push(engine, twin.draw(random, now, now + step))
        now += step
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            failing = FailingDisk(patch, number)
            engine.advance(now * SECOND)
        failures += failing.failed
        stays = any("stays as of its last update" in str(each.message) for each in said)
        assert not stays or failing.failed, said
        engine.advance(now * SECOND)  # nothing is new
        assert held(engine, view) == twin.answer(view, now - now % 2), number
        engine.checkpoint(tmp_path / "checkpoint")
        if not failing.failed and number > 12:
            break
        number += 1
    assert failures > 6
    assert is_complete(engine, view)
    engine.check()
    engine.close()
    again = Engine.restore(tmp_path / "checkpoint", archive=tmp_path / "views")
    assert held(again, view) == twin.answer(view, now - now % 2)
    assert is_complete(again, view)


def test_a_disk_that_fails_for_a_while(tmp_path):
    """All kinds of views at once; the disk fails from some operation on, through several updates."""
    engine, twin, random, now = engine_with(tmp_path / "views", *VIEWS), Twin(), np.random.default_rng(2), 0
    for turn in range(8):
        before = {}
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            failing = FailingDisk(patch, int(random.integers(0, 60)), once=False)
            more = int(random.integers(1, 4))
            while more:
                more -= failing.failed > 0
                twin.push(engine, twin.draw(random, now, now + 2))
                now += 2
                engine.advance(now * SECOND)
            before = {view: held(engine, view) for view in VIEWS}
            with pytest.raises(MuntinError, match=r"its disk does not take|cannot be written"):
                engine.checkpoint(tmp_path / "checkpoint")
        assert failing.failed
        assert any(before[view] != twin.answer(view, now) for view in VIEWS)
        if turn % 2:
            twin.push(engine, twin.draw(random, now, now + 2))
            now += 2
            engine.advance(now * SECOND)
        else:
            engine.checkpoint(tmp_path / "checkpoint")  # asks the disk again
        assert {view: held(engine, view) for view in VIEWS} == {
            view: twin.answer(view, now) for view in VIEWS
        }
        engine.checkpoint(tmp_path / "checkpoint")
    assert all(is_complete(engine, view) for view in VIEWS)
    engine.check()


@pytest.mark.parametrize("view", ["join", "except"])
def test_a_view_that_cannot_be_made_leaves_nothing(tmp_path, view):
    """Whatever fails of making it: it can be made afterwards."""
    for number in range(20):
        engine = engine_with(tmp_path / str(number))
        with pytest.MonkeyPatch.context() as patch:
            failing = FailingDisk(patch, number)
            try:
                engine.execute(f'CREATE MATERIALIZED VIEW "v" AS {VIEWS[view]} EVERY 2 SECONDS')
            except ArchiveError:
                assert not engine.stats()["views"]
                assert not engine.queries
                failing.left = 99
                engine.execute(f'CREATE MATERIALIZED VIEW "v" AS {VIEWS[view]} EVERY 2 SECONDS')
        engine.check()
        engine.close()
        if not failing.failed:
            break
    assert number > 2
