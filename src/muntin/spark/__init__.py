"""The runtime on Spark: the same queries, operators and answers, in one Structured Streaming query."""

from muntin.spark.shared_windows import answers_of, shared_windows

__all__ = ["answers_of", "shared_windows"]
