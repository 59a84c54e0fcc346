"""Hypothesis profiles: "ci" gives the same examples on every run, "thorough" looks further.

HYPOTHESIS_PROFILE=thorough pytest tests/test_machine.py
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile("thorough", deadline=None, max_examples=3000, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
