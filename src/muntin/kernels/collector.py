"""Python's collector of cycles rests while a kernel is compiled.

Numba makes some hundred thousand objects for a kernel, most of which live until it is done. The collector would look
through them, and through all that the process holds, again and again. Whoever has turned it off finds it off.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core.event import Listener, register


class Resting(Listener):  # type: ignore[misc]
    """Turns the collector off with the first of the kernels that compile each other, and on again after it.

    Numba's lock is held meanwhile, so that no other thread is in here.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._was_on = False

    def on_start(self, event: Any) -> None:
        if not self._depth:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth and self._was_on:
            gc.enable()


RESTING = Resting()
register("numba:compile", RESTING)
