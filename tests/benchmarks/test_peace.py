"""A busy machine records nothing unless it is told to, and then the result says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import peace
from benchmarks.__main__ import main
from benchmarks.machine import cpu_model
from benchmarks.measure import Column, Result
from benchmarks.peace import BusyError, Meanwhile, Peace, Span, Watch, fastest_loop
from benchmarks.report import origin_text

QUIET = Peace(others=0.0, steal=0.0, loop=3.0)
BUSY = Peace(others=1.5, steal=0.1, loop=9.0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Peace]:
    """What the machine will be seen to do, look by look."""
    looks: list[Peace] = []
    monkeypatch.setattr(peace, "observe", lambda: looks.pop(0))
    monkeypatch.setattr(Span, "end", lambda span: Meanwhile(others=0.0, steal=0.0))
    return looks


def save(folder: Path, told: dict[str, object] | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("benchmarks.measure.RESULTS", folder)
    return Result("made", "Made", "Notes.", [Column("n", "n", ",d")], [{"n": 1}]).save("0123abc", told)


def test_a_busy_machine_is_refused_before_and_after(seen, tmp_path):
    """Whichever of the two looks finds it busy."""
    seen.append(BUSY)
    with pytest.raises(BusyError, match=r"other processes use 1\.50 cores; the hypervisor takes 10%"):
        Watch(results=tmp_path)
    seen += [QUIET, BUSY]
    watch = Watch(results=tmp_path)
    with pytest.raises(BusyError, match="became busy"):
        watch.end()


def test_what_others_do_between_the_two_looks_is_noticed(seen, tmp_path, monkeypatch):
    """Quiet at both ends, busy between them."""
    seen += [QUIET, QUIET, QUIET, QUIET]
    monkeypatch.setattr(Span, "end", lambda span: Meanwhile(others=0.8, steal=0.0))
    with pytest.raises(BusyError, match=r"other processes used 0\.80 cores meanwhile"):
        Watch(results=tmp_path).end()
    told = Watch(refuses=False, results=tmp_path).end()
    assert told["disturbed"] == ["other processes used 0.80 cores meanwhile"]


def test_what_a_child_does_is_not_what_others_do(monkeypatch):
    """A child that has ended, one that runs, and this process: of two busy cores all but half a one are theirs."""
    looks = iter([(10.0, 0.0), (30.0, 1.0)])
    monkeypatch.setattr(peace, "_core_seconds", lambda: next(looks))
    spent = iter([3.0, 18.0])
    monkeypatch.setattr(peace, "cpu_seconds", lambda: next(spent))
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(peace.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(peace.os, "cpu_count", lambda: 2)
    assert Span().end() == Meanwhile(others=0.5, steal=0.05)


def test_a_loop_that_waits_is_noticed_on_a_processor_that_no_result_knows(seen, tmp_path):
    """It needs no pace to be compared with."""
    seen.append(Peace(others=0.0, steal=0.0, loop=3.0, waiting=2.0))
    with pytest.raises(BusyError, match=r"a fixed loop takes 2\.0 times the CPU time"):
        Watch(results=tmp_path)


def test_a_result_says_what_the_machine_did(seen, tmp_path, monkeypatch):
    """In peace or not."""
    seen += [QUIET, QUIET, BUSY, QUIET]
    quiet = json.loads(save(tmp_path, Watch(results=tmp_path).end(), monkeypatch).read_text())
    assert "Measured in peace, on a processor whose pace no earlier result tells." in origin_text(quiet)
    busy = json.loads(save(tmp_path, Watch(refuses=False, results=tmp_path).end(), monkeypatch).read_text())
    assert (
        "busy: other processes use 1.50 cores; the hypervisor takes 10% of the time; a fixed loop"
        in origin_text(busy)
    )


def test_the_loop_is_compared_with_the_fastest_of_the_same_processor(seen, tmp_path, monkeypatch):
    """Of another one nothing follows."""
    assert fastest_loop(cpu_model(), tmp_path) is None
    seen += [QUIET, Peace(0.0, 0.0, 2.5)]
    save(tmp_path, Watch(results=tmp_path).end(), monkeypatch)
    assert fastest_loop(cpu_model(), tmp_path) == 2.5
    assert fastest_loop("another", tmp_path) is None
    seen.append(Peace(0.0, 0.0, 3.2))
    with pytest.raises(BusyError, match=r"1\.3 times as long"):
        Watch(results=tmp_path)


def test_the_command_goes_on_with_the_next_and_ends_with_3(seen, monkeypatch, capsys):
    """Nothing of a refused benchmark has run."""
    monkeypatch.setattr("benchmarks.__main__.write_page", lambda: None)
    seen += [BUSY, BUSY]
    assert main(["keys", "lookups"]) == 3
    assert capsys.readouterr().err.count("Nothing is recorded") == 2


def test_a_look_at_this_machine():
    """Numbers of the right size, whatever it does."""
    found = peace.observe(0.05)
    assert 0 <= found.others < 512
    assert 0 <= found.steal <= 1
    assert found.loop > 0
    assert found.waiting > 0.9
