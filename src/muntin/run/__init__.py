"""Queries of a file over the events of a file: what `muntin run` and `muntin explain` do."""

from muntin.run.pipeline import Report, explain_file, open_progress, run_file

__all__ = ["Report", "explain_file", "open_progress", "run_file"]
