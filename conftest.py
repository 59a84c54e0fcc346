"""Modules that need Spark are left out where there is none."""

from importlib.util import find_spec

HAS_SPARK = find_spec("pyspark") is not None
collect_ignore_glob = [] if HAS_SPARK else ["src/muntin/spark/*.py", "tests/spark/*.py"]


def pytest_report_header() -> list[str]:
    """Nothing is left out in silence."""
    return [] if HAS_SPARK else ["Spark: not installed, its tests are left out (make setup installs it)"]
