"""Memory: what a process has kept of earlier calls, and would answer from instead of running the code again.

A mutant in a function that remembers its results would have no effect on what was asked while tests were collected; and
a test that finds everything remembered would not count as one that runs the function.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_CACHE = type(lru_cache(int))
# what is remembered in dicts and sets, by module
_KEPT = {
    "muntin.plan.choices": ("_BY_TRAITS",),
    "muntin.spark.pack": ("_MAKERS",),
    "muntin.sql.parse": ("_SHARED",),
}


class Memory:
    """All that is there when it is made."""

    def __init__(self, objects: Iterable[Any] | None = None) -> None:
        everything = gc.get_objects() if objects is None else objects
        caches = [each for each in everything if type(each) is _CACHE]
        self._forget = [each.cache_clear for each in caches if _is_ours(each.__wrapped__)]
        for module, names in _KEPT.items():
            for name in names if module in sys.modules else ():
                found: Any = sys.modules[module]
                for part in name.split("."):
                    found = getattr(found, part)
                self._forget.append(found.clear)

    def forget(self) -> None:
        """As if nothing had been asked yet."""
        for forget in self._forget:
            forget()


def _is_ours(function: Any) -> bool:
    """Whether it is muntin's; kernels that were made for a kind of cells are no results, and are found one by one."""
    module = getattr(function, "__module__", None) or ""
    return module.startswith("muntin.") and not module.startswith("muntin.kernels.")
