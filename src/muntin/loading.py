"""Loading: said if it takes more than a second, since a process that is silent for seconds looks as if it hung.

Whoever sits before a terminal or a notebook is told, by the logger `muntin.loading`; a log that nobody watches is not.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

_log = logging.getLogger("muntin.loading")
PATIENCE = 1.0  # seconds


@contextmanager
def told_if_slow() -> Iterator[None]:
    """Around imports that may take long."""
    if not _is_watched():
        yield
        return
    timer = Timer(PATIENCE, _log.warning, ("muntin: loading its engine, once in a process; 1 to 3 s",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
