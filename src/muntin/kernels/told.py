"""What is told while kernels are compiled: a process that is silent for seconds looks as if it hung.

The lines go to the logger `muntin.kernels`. Where nobody has set up logging, Python writes them to stderr, in notebooks
below the cell; they are warnings for that reason alone. To be spared them:
`logging.getLogger("muntin.kernels").setLevel("ERROR")`.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from time import monotonic
from typing import Any

from numba.core.event import Listener, register

from muntin.kernels.jit import CACHE, WANTED

_log = logging.getLogger("muntin.kernels")
_EVERY = 1.0  # seconds between two lines


class Compiling(Listener):  # type: ignore[misc]
    """Tells when the first kernel is compiled, and then every second which one is: one alone may take several."""

    def __init__(self) -> None:
        self.kernels = 0
        self._begun = self._told = 0.0
        self._depth = 0  # a kernel compiles those that it calls; Numba's lock is held meanwhile
        self._is_done = Event()

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        self._depth += 1
        if self._depth > 1 or not str(function.__module__).startswith(
            "muntin."
        ):  # code of a text has no module
            return
        self.kernels += 1
        if self.kernels == 1:
            self._begun = self._told = monotonic()
            _log.warning(
                "muntin: compiling kernels for first use, 5 to 20 s on an idle machine %s", _where_they_go()
            )
        self._is_done = Event()
        Thread(target=self._tell, args=(function, self._is_done), daemon=True).start()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._is_done.set()

    def _tell(self, function: Any, is_done: Event) -> None:
        while not is_done.wait(max(0.0, self._told + _EVERY - monotonic())):
            self._told = monotonic()
            _log.warning(
                "muntin: %d kernels compiled in %.0f s; now %s in %s",
                self.kernels - 1, self._told - self._begun, function.__name__, function.__module__,
            )  # fmt: skip


def _where_they_go() -> str:
    if CACHE is not None:
        return f"(once: they are kept in {CACHE})"
    if WANTED is None:
        return "(MUNTIN_CACHE_DIR=off: they are not kept)"
    return (
        f"in every process: {WANTED} cannot be written, so they are not kept; set MUNTIN_CACHE_DIR to a "
        "directory that can"
    )


COMPILING = Compiling()
register("numba:compile", COMPILING)
