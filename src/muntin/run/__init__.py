"""Queries of a file over the events of a file: what `muntin run`, `lookup-at` and `explain` do."""

from muntin.run.lookups import lookup_file
from muntin.run.pipeline import Report, explain_file, open_progress, refuse_settings, run_file

__all__ = ["Report", "explain_file", "lookup_file", "open_progress", "refuse_settings", "run_file"]
