"""Pieces of work that threads share."""

from __future__ import annotations

import gc
import os
import threading
import time
from functools import partial

import pytest

from muntin.crew import Crew


def ours() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("muntin-")}


def test_results_are_in_the_order_of_pieces() -> None:
    together = Crew(4)
    for many in (0, 1, 2, 50):
        assert together.share([partial(int, number) for number in range(many)]) == list(range(many))


def test_pieces_run_side_by_side() -> None:
    """Each waits for the other."""
    barrier = threading.Barrier(3, timeout=120)
    assert sorted(Crew(3).share([barrier.wait] * 3)) == [0, 1, 2]


def test_pieces_share_work_in_their_turn() -> None:
    together = Crew(3)

    def branch(depth: int) -> int:
        return 1 if not depth else sum(together.share([partial(branch, depth - 1)] * 3))

    assert branch(5) == 3**5


def test_the_first_error_is_raised_when_all_is_done() -> None:
    done = []

    def piece(number: int) -> None:
        time.sleep(0.01 * (number == 3))
        if number in (1, 2):
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match="1"):
        Crew(2).share([partial(piece, number) for number in range(4)])
    assert sorted(done) == [0, 3]


def test_threads_go_with_their_crew() -> None:
    before = ours()
    together = Crew(3)
    started = ours() - before
    assert len(started) == 2
    del together
    gc.collect()
    for thread in started:
        thread.join(timeout=120)
        assert not thread.is_alive()


def test_a_forked_process_does_all_by_itself() -> None:
    together = Crew(2)
    child = os.fork()
    if not child:
        right = [
            together.share([partial(int, number) for number in range(3)]) == [0, 1, 2] for _ in range(50)
        ]
        os._exit(not all(right))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
