"""A plugin of pytest that judges mutants: it collects all tests once, and forks for each mutant.

    python -m pytest -p mutants.judge --orders 5 --verdicts 6

Orders come as lines of JSON on the one descriptor, verdicts go out on the other. A fork patches itself (`patch.py`)
and runs the tests that reach the mutation, until one fails. So nothing is imported and collected twice, and nothing is
written to disk.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import NoReturn

import hypothesis
import pytest

from mutants.mutation import Mutation
from mutants.patch import Patcher
from mutants.project import relative
from mutants.reach import Reach
from mutants.recorded import recorded

# A test may take so many times as long as recorded, and so many seconds more: a loop may have no end any more.
# They are seconds of CPU, so that others at work do no harm. What waits for ever takes none: the clock decides.
_PATIENCE, _GRACE, _COMPILING = 4, 5, 30
_WAITING, _QUIET = 20, 60  # seconds on the clock for each second of CPU that was recorded, and seconds more
_MOST_BYTES = 6 << 30


def pytest_load_initial_conftests() -> None:
    """What fails need not be made small. The profiles of conftest.py are made from this one."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", phases=phases, database=None)
    hypothesis.settings.load_profile("mutants")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    outcome: str  # "killed", "survived", or "unreached" if no test runs its line
    by: str = ""  # the test that noticed, or what happened
    tests: int = 0  # how many were to be run
    seconds: float = 0.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--orders", type=int)
    parser.addoption("--verdicts", type=int)
    parser.addoption("--seconds", type=float, help="of tests for each mutant, as they were recorded")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Judge instead of running tests."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # a judge that is ended ends its fork as well
    _import_all()
    judge = _Judge(session, recorded(), session.config.getoption("--seconds"))
    gc.collect()
    gc.freeze()  # forks then share these objects as long as possible
    orders, verdicts = session.config.getoption("--orders"), session.config.getoption("--verdicts")
    with os.fdopen(orders) as lines, os.fdopen(verdicts, "w") as out:
        print(json.dumps("ready"), file=out, flush=True)
        for line in lines:
            verdict = judge.judge(Mutation(**json.loads(line)))
            print(json.dumps(vars(verdict)), file=out, flush=True)
    return True


def _import_all() -> None:
    """Modules that functions import when they are called would be imported by every fork."""
    import muntin

    for module in pkgutil.walk_packages(muntin.__path__, "muntin."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    if shrink := sys.modules.get("shrink"):
        shrink.smallest.__defaults__ = (0,)  # what fails need not be made small


class _Judge:
    def __init__(self, session: pytest.Session, reach: Reach, most_seconds: float) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._patcher = Patcher()
        self._session = session
        self._reach = reach
        self._most_seconds = most_seconds

    def judge(self, mutation: Mutation) -> Verdict:
        start = time.monotonic()
        tests = self._tests_of(mutation)
        if not tests:
            return Verdict("unreached")
        grace = _GRACE + _COMPILING * bool(self._patcher.kernels_of(mutation))
        recorded_for = {test: self._reach.seconds[test] for test in tests}
        limits = {test: grace + _PATIENCE * seconds for test, seconds in recorded_for.items()}
        by = self._fork(mutation, limits, _QUIET + _WAITING * (grace + sum(recorded_for.values())))
        return Verdict("killed" if by else "survived", by, len(tests), time.monotonic() - start)

    def _tests_of(self, mutation: Mutation) -> list[str]:
        if kernels := self._patcher.kernels_of(mutation):
            codes = [kernel.py_func.__code__ for kernel in kernels]
            reached = [
                self._reach.tests_of(relative(code.co_filename), code.co_firstlineno) for code in codes
            ]
        else:
            reached = [self._reach.tests_of(mutation.path, mutation.line)]
        tests = set[str]().union(*reached) & self._items.keys()
        return self._reach.ordered(tests, mutation.path, self._most_seconds)

    def _fork(self, mutation: Mutation, limits: dict[str, float], most: float) -> str:
        """The test that noticed, or how the fork ended; nothing if all tests passed.

        Each test has its limit, in seconds of CPU; all together may take `most` seconds on the clock.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            self._run_mutant(mutation, limits, writer)
        os.close(writer)
        said = ""
        try:
            is_over, _, _ = select.select([reader], [], [], most)
            said = os.read(reader, 4096).decode() if is_over else "took too long"
        finally:  # also if the judge is stopped
            os.close(reader)
            status = _end(child)
        if said:
            return "" if said == "passed" else said
        signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if signalled == signal.SIGXCPU:
            return "took too long"
        return f"died of {signal.Signals(signalled).name}" if signalled else "ended the process"

    def _run_mutant(self, mutation: Mutation, limits: dict[str, float], writer: int) -> NoReturn:
        """In the fork: says which test failed, or that all passed, and ends the process."""

        def end(said: str) -> NoReturn:
            os.write(writer, said.encode())
            os._exit(0)

        class Listener:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    end(report.nodeid)

        try:
            _stand_alone()
            self._session.config.pluginmanager.register(Listener())
            if not self._patcher.patch(mutation):
                end("not found in any function")
            items = [self._items[test] for test in limits]
            for item, following in zip(items, [*items[1:], None], strict=True):
                _limit_time(limits[item.nodeid])
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException as error:  # whatever it is, the mutant has been noticed
            end(f"raised {type(error).__name__}")
        end("passed")


def _end(child: int) -> int:
    """End a fork and what it has started; how it ended, if it had ended by itself."""
    ended, status = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not ended:
        _, status = os.waitpid(child, 0)
    return status


def _stand_alone() -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))


def _limit_time(seconds: float) -> None:
    """Let the process use so much CPU from now on."""
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), resource.RLIM_INFINITY))
