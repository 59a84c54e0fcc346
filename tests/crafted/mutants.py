"""Mutants: files with right checksums that nobody wrote, read and used in a process of their own.

A process reads one mutant after the other and says on a line of its own what it is about to do: one that ends with a
crash, hangs or takes too much memory is noticed by whoever started it.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import MuntinError

MEMORY = 3 << 30  # bytes that a process may have beyond what it begins with
SECONDS = 60  # that one mutant may take: a machine may be busy
_NUMBERS = (0, 1, -1, 2, 7, 64, 1000, 2**31, -(2**31), 2**40, 2**62, -(2**62), 2**63 - 1, -(2**63))


def run_mutants(script: str, folder: Path, seeds: range) -> None:
    """Have a script try mutants in a process of its own; an error that names the seed if it does not survive."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, script, str(folder), str(seeds.start), str(seeds.stop)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    tried = done.stdout.split()
    last = tried[-1] if tried else "none"
    assert done.returncode == 0, f"seed {last}: exit code {done.returncode}\n{done.stderr[-3000:]}"
    assert last == "done", done.stderr


def try_all(
    read_and_use: Callable[[Path, random.Random], None], warm_up: Callable[[Path], Any] | None = None
) -> None:
    """The main program of such a script: every mutant ends in an answer, or in an error of ours. `warm_up` is done
    without haste: what it needs may have to be compiled."""
    folder, first, stop = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    faulthandler.enable()
    if warm_up is not None:
        warm_up(folder)
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    failed = []
    for seed in range(first, stop):
        print(seed, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            read_and_use(folder, random.Random(seed))
        except MuntinError:
            pass
        except Exception:
            failed.append(seed)
            print(f"seed {seed}", traceback.format_exc(), file=sys.stderr, flush=True)
        faulthandler.cancel_dump_traceback_later()
    if failed:
        sys.exit(f"seeds {failed} end in errors that are not ours")
    print("done", flush=True)


def mutate_arrays(arrays: dict[str, Any], chance: random.Random) -> None:
    """Change, cut, drop, retype or swap some arrays."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not arrays:
            return
        name = chance.choice(sorted(arrays))
        array = arrays[name]
        how = chance.random()
        if how < 0.06:
            del arrays[name]
        elif how < 0.14:
            other = chance.choice(sorted(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
        elif isinstance(array, np.ndarray):
            arrays[name] = _mutated(array, chance, how)
        elif len(array):
            cut = chance.randrange(len(array))
            arrays[name] = chance.choice((array[:cut], pa.concat_arrays([array, array[cut:]]), array[::-1]))


def _mutated(array: np.ndarray, chance: random.Random, how: float) -> np.ndarray:
    if how < 0.20:
        return array[: chance.randrange(len(array) + 1)]
    if how < 0.25:
        return np.concatenate([array, array[: chance.randint(1, 3)]])
    if how < 0.30:
        return array.astype(chance.choice((np.int64, np.float64, np.int8, np.uint32, np.bool_)))
    changed = array.copy()
    raw = changed.view(np.uint8)
    for _ in range(chance.choice((1, 1, 2, 5))):
        if not len(array):
            break
        place = chance.randrange(len(array))
        if changed.dtype == np.bool_:
            raw[place] = chance.randrange(256)
        elif changed.dtype.kind == "f":
            changed[place] = chance.choice((0.0, -1.0, np.nan, np.inf, 1e300, 0.3))
        elif chance.random() < 0.5:
            changed[place] = np.array(chance.choice(_NUMBERS)).astype(changed.dtype)
        elif chance.random() < 0.5:
            changed[place] = changed[chance.randrange(len(array))]
        else:
            with np.errstate(over="ignore"):
                changed[place] += np.array(chance.choice((-2, -1, 1, 2, 100))).astype(changed.dtype)
    return changed


def mutate_description(value: Any, chance: random.Random) -> Any:
    """The same plain data with something else in one place."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        if chance.random() < 0.05:
            return {each: value[each] for each in value if each != name}
        return {**value, name: mutate_description(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        if chance.random() < 0.1:
            return value[:place]
        return [*value[:place], mutate_description(value[place], chance), *value[place + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.4:
        return value + chance.choice((-1000, -1, 1, 1000))
    if isinstance(value, str) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return value[:place] + chance.choice("a0 '../") + value[place + 1 :]
    return chance.choice((*_NUMBERS, None, "", "..", "../x", [], {}, [1], True, 1.5, 10**30, "x" * 100))


def mutate_bytes(content: bytes, chance: random.Random, least: int = 0) -> bytes:
    """Bytes with a few others in their place, from `least` on."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(least, len(changed))
        if chance.random() < 0.4:
            changed[place] = chance.randrange(256)
        else:
            width = chance.choice((4, 8))
            number = chance.choice((*_NUMBERS, place, len(content))) % 256**width
            start = max(least, place - place % width)
            changed[start : start + width] = number.to_bytes(width, "little")[: len(changed) - start]
    return bytes(changed)


def each_of(items: Iterable[Any], use: Callable[[Any], Any]) -> None:
    """Use all of them, whatever errors of ours some of them end in."""
    for item in items:
        try:
            use(item)
        except MuntinError:
            continue
