"""What is recorded of the reach of tests: kept in `.mutants/reach/`, and made again where it no longer holds.

A record holds for the sources it was made with. If only tests have changed, those of changed files are recorded anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from mutants.project import PROJECT, SCRATCH, digest, sources, test_files
from mutants.reach import Reach

_ALL_HAVE_RUN = (
    0,
    1,
    5,
)  # how pytest ends if all passed, if some failed, which are left out, or if there was none
_PORTION = 15  # files that are recorded together
QUICK = "not slow and not faults and not api and not spark"  # a fork cannot share a JVM


def recorded() -> Reach:
    """All that is recorded of the sources and tests as they are."""
    reach = Reach()
    for record in _records():
        reach.add(record, {file for file, made_of in _files_of(record).items() if made_of == digest([file])})
    return reach


def recorded_files() -> list[str]:
    """Files whose tests are recorded as they are."""
    known = {item for record in _records() for item in _files_of(record).items()}
    return [file for file in test_files() if (file, digest([file])) in known]


def unrecorded() -> list[str]:
    """Files whose tests have to be recorded."""
    return sorted(set(test_files()) - set(recorded_files()))


def record(jobs: int) -> None:
    """Record what is missing, with some processes at once; what they have finished is kept if they are stopped."""
    files = unrecorded()
    portions = [files[start :: -(-len(files) // _PORTION)] for start in range(-(-len(files) // _PORTION))]
    _folder().mkdir(parents=True, exist_ok=True)
    first = max([int(each.stem) for each in _records()], default=-1) + 1
    with ThreadPoolExecutor(jobs) as pool:
        done = pool.map(_record_portion, count(first), portions)
        for number, _ in enumerate(done, 1):
            print(f"  {number} of {len(portions)} portions are recorded", flush=True)


def _record_portion(number: int, files: list[str]) -> None:
    made = _folder() / f"{number}.npz"
    kept = {file: digest([file]) for file in files}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.recorder", "-p", "no:cacheprovider"]
    with made.with_suffix(".log").open("wb") as log:
        ended = subprocess.run(
            [*command, "--reach", str(made), "-m", QUICK, *files],
            cwd=PROJECT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    if ended.returncode in _ALL_HAVE_RUN:
        made.with_suffix(".json").write_text(json.dumps(kept))


def _folder() -> Path:
    """Records by other probes have other blocks: the two cannot be read together. Other recorders take other notes."""
    return SCRATCH / "reach" / digest([*sources(), "mutants/probes.py", "mutants/recorder.py"])


def _records() -> list[Path]:
    """The oldest first; a record without its list of files was never finished."""
    made = [file.with_suffix(".npz") for file in _folder().glob("*.json")]
    return sorted(made, key=lambda file: int(file.stem))


def _files_of(record: Path) -> dict[str, str]:
    """The digest of each file when its tests were recorded."""
    kept: dict[str, str] = json.loads(record.with_suffix(".json").read_text())
    return kept
