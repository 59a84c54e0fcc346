"""A jury: some judges at work on the mutants that wait, each in a process of its own (`judge.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from mutants.mutation import Mutation
from mutants.project import PROJECT, SCRATCH
from mutants.recorded import QUICK, recorded_files
from mutants.results import Result, append


class Jury:
    """Hands out mutants, and keeps each verdict as soon as there is one."""

    def __init__(self, file: Path, mutations: Collection[Mutation]) -> None:
        self._file = file
        self._waiting = deque(mutations)
        self._count, self._done, self._killed = len(mutations), 0, 0
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._judges: list[subprocess.Popen[bytes]] = []
        self._failures: list[Exception] = []

    def run(self, jobs: int, seconds: float) -> None:
        """Judge all, with so many processes at once, each mutant by so many seconds of tests."""
        threads = [
            threading.Thread(target=self._work, args=(job, seconds), daemon=True)
            for job in range(min(jobs, self._count))
        ]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.2)  # and hear Ctrl-C
        finally:
            for judge in self._judges:
                judge.terminate()
                judge.wait()
        if self._failures:
            raise self._failures[0]

    def _work(self, job: int, seconds: float) -> None:
        try:
            with self._judge(job, seconds) as (orders, verdicts):
                while mutation := self._next():
                    print(json.dumps(asdict(mutation)), file=orders, flush=True)
                    self._note(Result(mutation, **json.loads(_said(verdicts, job))))
        except Exception as failure:
            self._failures.append(failure)

    @contextmanager
    def _judge(self, job: int, seconds: float) -> Iterator[tuple[TextIO, TextIO]]:
        """A judge that is ready: where it takes orders, and where its verdicts come from."""
        take, orders = os.pipe()
        verdicts, give = os.pipe()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.judge", "-p", "no:cacheprovider"]
        command += ["--orders", str(take), "--verdicts", str(give), "--seconds", str(seconds)]
        command += ["-m", QUICK, "--basetemp", str(SCRATCH / f"tmp{job}"), *recorded_files()]
        with _log(job).open("wb") as log:
            process = subprocess.Popen(
                command, cwd=PROJECT, pass_fds=(take, give), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._judges.append(process)
        os.close(take)
        os.close(give)
        with os.fdopen(orders, "w") as out, os.fdopen(verdicts) as lines:
            _said(lines, job)
            yield out, lines

    def _next(self) -> Mutation | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _note(self, result: Result) -> None:
        with self._lock:
            append(self._file, result)
            self._done += 1
            self._killed += result.outcome == "killed"
            left = (time.monotonic() - self._start) / self._done * (self._count - self._done)
            place = f"{result.mutation.path}:{result.mutation.line}"
            print(
                f"{self._done:>4} of {self._count}, {self._killed} killed, {left / 60:.0f} min left; "
                f"{result.outcome} in {result.seconds:.0f} s: {place} {result.by and f'by {result.by}'}",
                flush=True,
            )


def _said(verdicts: TextIO, job: int) -> str:
    line = verdicts.readline()
    if not line:
        raise RuntimeError(f"a judge has ended before its time; see {_log(job)}")
    return line


def _log(job: int) -> Path:
    return SCRATCH / f"judge{job}.log"
