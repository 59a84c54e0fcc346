"""How every kernel is compiled: the one place with JIT options.

* `nogil`: shards run on threads. Serial kernels only; parallelism comes from shards.
* no fastmath: answers must be bit-equal between runtimes, and NaN and infinities are values.
* `cache`: compiled code is kept in a directory of our own, by a hash of the sources that it was compiled from: the
  file of the kernel, the kernel files that this one imports, all rules of components, and Numba's version. Numba's
  own caches go by the path and the date of one file: they do not notice when a function called from another file
  changed, and they compile again what is the same in another checkout or virtual environment.
  `MUNTIN_CACHE_DIR` moves the directory; `MUNTIN_CACHE_DIR=off` turns it off. A file that cannot be read is
  compiled and written anew. What is compiled for a component that is defined elsewhere is not kept, since the hash
  does not cover its rules.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.types import BaseNamedTuple

# Kernels are not annotated: Numba finds their types, and callers see this one.
Kernel = Callable[..., Any]


def _load_division_runtime() -> None:
    # LLVM 20 (numba 0.62 to 0.68) may turn `while t >= edge: edge += step` into a 128-bit division
    # whose run-time function __udivti3 the JIT cannot find: the process then dies with a
    # segmentation fault. libgcc_s has it. macOS has it in libSystem, always loaded; on Windows the
    # kernels are untested. tests/kernels/test_jit.py runs such a loop in a child process.
    if sys.platform.startswith("linux"):
        ctypes.CDLL("libgcc_s.so.1", mode=ctypes.RTLD_GLOBAL)


def _wanted_directory() -> Path | None:
    chosen = os.environ.get("MUNTIN_CACHE_DIR")
    if chosen == "off":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(chosen or os.path.join(home, "muntin")) / "kernels"


def _can_be_written(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


_load_division_runtime()
WANTED = _wanted_directory()
CACHE = WANTED if WANTED is not None and _can_be_written(WANTED) else None  # told.py says so if it is another
# Nobody calls kernels from C: an entry for that takes a twentieth of the time to compile.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
PART: dict[str, Any] = {"no_cfunc_wrapper": True}  # of what `numba.extending.overload` compiles into kernels


_KERNELS = Path(__file__).parent
_RULES = sorted((_KERNELS.parent / "component").glob("*.py"))
_IMPORTED = re.compile(rb"^from muntin\.kernels\.(\w+) import ", re.MULTILINE)


@cache
def _hash_of_sources(source: Path) -> str:
    """Of all that kernels in the file `source` are compiled from."""
    found, reached = set[Path](), [source]
    while reached:
        file = reached.pop()
        if file not in found:
            found.add(file)
            reached += (_KERNELS / f"{name.decode()}.py" for name in _IMPORTED.findall(file.read_bytes()))
    digest = hashlib.sha256(numba.__version__.encode())
    for file in [*_RULES, *sorted(found, key=lambda each: each.name)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class _ByContent:
    """Tells Numba where the compiled code of one function is kept: a folder for each hash of its sources."""

    def __init__(self, function: Kernel, source: str) -> None:
        assert CACHE is not None
        self._line = function.__code__.co_firstlineno
        self._hash = _hash_of_sources(Path(source))
        self._folder = CACHE / f"{Path(source).stem}-{self._hash}"

    @classmethod
    def from_function(cls, function: Kernel, source: str) -> _ByContent:
        return cls(function, source)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return self._hash

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KeptByContent(CompileResultCacheImpl):  # type: ignore[misc]
    """How Numba writes and reads compiled code, in the folders of `_ByContent`."""

    _locator_classes = (_ByContent,)


class _Rebuilt(FunctionCache):  # type: ignore[misc]
    """What is compiled of one function. Numba would raise at every call, for ever, where a file is damaged."""

    _impl_class = _KeptByContent

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling damaged bytes may raise anything
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        kinds = (each.instance_class for each in sig if isinstance(each, BaseNamedTuple))
        if all(_is_ours(kind) for kind in kinds):
            super().save_overload(sig, data)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("muntin.")


def kernel(function: Kernel, is_kept: bool = True) -> Kernel:
    """Compile `function` on first use for the types it is called with."""
    compiled: Any = numba.njit(**_OPTIONS)(function)
    if CACHE is not None and is_kept:
        compiled._cache = _Rebuilt(compiled.py_func)
    made: Kernel = compiled
    return made


def inner(function: Kernel) -> Kernel:
    """A part of kernels, copied into each that calls it: arrays handed to a kernel within a loop are counted in and
    out with locked instructions, which costs more than a short loop does."""
    made: Kernel = numba.njit(inline="always", **_OPTIONS)(function)
    return made


def kernel_per_kind(make: Callable[[Any], Kernel]) -> Callable[[Any], Kernel]:
    """A kernel for each kind of cells that is asked for. Arrays go in as they are and become cells there.

    To take cells, a NamedTuple, out of Python costs as much as a short kernel does.
    """

    @cache
    def kernel_for(kind: Any) -> Kernel:
        function = make(kind)
        function.__qualname__ = f"{function.__name__}_{kind.__name__}"  # by which its compiled code is kept
        return kernel(function, _is_ours(kind))

    kernel_for.__doc__ = make.__doc__
    return kernel_for
