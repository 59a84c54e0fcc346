"""Modules that need Spark are left out where there is none."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["src/muntin/spark/*.py", "tests/spark/*.py"]
