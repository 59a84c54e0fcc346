"""How every kernel is compiled: the one place with JIT options.

* `nogil`: shards run on threads. Serial kernels only; parallelism comes from shards.
* no fastmath: answers must be bit-equal between runtimes, and NaN and infinities are values.
* `cache`: compiled code is kept in a directory of our own, keyed by a hash of the sources of all
  kernels (Numba itself does not notice when a function called from another file changed) and by
  Numba's version. `MUNTIN_CACHE_DIR` moves it; `MUNTIN_CACHE_DIR=off` turns it off. A file that cannot be
  read is compiled and written anew.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

# Kernels are not annotated: Numba finds their types, and callers see this one.
Kernel = Callable[..., Any]


def _load_division_runtime() -> None:
    # LLVM 20 (numba 0.62 to 0.68) may turn `while t >= edge: edge += step` into a 128-bit division
    # whose run-time function __udivti3 the JIT cannot find: the process then dies with a
    # segmentation fault. libgcc_s has it. macOS has it in libSystem, always loaded; on Windows the
    # kernels are untested. tests/kernels/test_jit.py runs such a loop in a child process.
    if sys.platform.startswith("linux"):
        ctypes.CDLL("libgcc_s.so.1", mode=ctypes.RTLD_GLOBAL)


def _cache_directory() -> Path | None:
    chosen = os.environ.get("MUNTIN_CACHE_DIR")
    if chosen == "off":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    directory = Path(chosen or os.path.join(home, "muntin")) / "kernels" / digest.hexdigest()[:16]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


_load_division_runtime()
CACHE = _cache_directory()
# Nobody calls kernels from C: an entry for that takes a twentieth of the time to compile.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class _Rebuilt(FunctionCache):  # type: ignore[misc]
    """What is compiled of one function. Numba would raise at every call, for ever, where a file is damaged."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling damaged bytes may raise anything
            self.flush()
            return None


def kernel(function: Kernel) -> Kernel:
    """Compile `function` on first use for the types it is called with."""
    compiled: Any = numba.njit(**_OPTIONS)(function)
    if CACHE is not None:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(CACHE)  # read by Numba when a cache is made; others keep their setting
        try:
            compiled._cache = _Rebuilt(compiled.py_func)
        finally:
            numba.config.CACHE_DIR = before
    made: Kernel = compiled
    return made


def inner(function: Kernel) -> Kernel:
    """A part of kernels, copied into each that calls it: arrays handed to a kernel within a loop are counted in and
    out with locked instructions, which costs more than a short loop does."""
    made: Kernel = numba.njit(inline="always", **_OPTIONS)(function)
    return made
