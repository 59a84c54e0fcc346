"""Hypothesis: the same examples on every run, unless MUNTIN_THOROUGH asks for more of them (effort.py).

MUNTIN_THOROUGH=30 pytest tests/test_machine.py
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from effort import THOROUGH

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "further", deadline=None, max_examples=100 * max(1, THOROUGH), suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("further" if THOROUGH > 1 else "ci")
