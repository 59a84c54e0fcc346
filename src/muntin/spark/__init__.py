"""The runtime on Spark: the same queries, shards and answers, in one Structured Streaming query."""

from muntin.errors import MissingPackage

try:
    import pyspark  # noqa: F401
except ImportError:
    raise MissingPackage("muntin.spark needs Spark: pip install 'muntin[spark]'") from None

from muntin.spark.answers import overwrite_batches
from muntin.spark.delta import append_to_delta
from muntin.spark.event_folder import EventFolder
from muntin.spark.explain import explain
from muntin.spark.flow import answers_of, shared_windows
from muntin.spark.keep_view import archive_join, keep_view
from muntin.spark.lookup_at import lookup_at
from muntin.spark.messages import answer_messages, arrow_events
from muntin.spark.progress import ProgressListener
from muntin.spark.published import publish_metrics
from muntin.spark.restore import RestoredState, restore
from muntin.spark.scan_archive import scan_archive
from muntin.spark.session import local_session
from muntin.spark.state import read_state
from muntin.spark.table_frame import TableFrame

__all__ = [
    "EventFolder", "ProgressListener", "RestoredState", "TableFrame", "answer_messages", "answers_of",
    "append_to_delta", "archive_join", "arrow_events", "explain", "keep_view", "local_session", "lookup_at",
    "overwrite_batches", "publish_metrics", "read_state", "restore", "scan_archive", "shared_windows",
]  # fmt: skip
