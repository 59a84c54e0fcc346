"""Figures of the runtime on Spark beside what Spark has itself."""
