"""The runtime on Spark: the same queries, shards and answers, in one Structured Streaming query."""

from muntin.errors import MissingPackage

try:
    import pyspark  # noqa: F401
except ImportError:
    raise MissingPackage("muntin.spark needs Spark: pip install 'muntin[spark]'") from None

from muntin.spark.answers import overwrite_batches
from muntin.spark.archive_join import archive_join
from muntin.spark.archive_scan import scan_archive
from muntin.spark.event_folder import EventFolder
from muntin.spark.flow import answers_of, shared_windows
from muntin.spark.progress import ProgressListener
from muntin.spark.session import local_session
from muntin.spark.state import read_state
from muntin.spark.table_frame import TableFrame

__all__ = [
    "EventFolder", "ProgressListener", "TableFrame", "answers_of", "archive_join", "local_session",
    "overwrite_batches", "read_state", "scan_archive", "shared_windows",
]  # fmt: skip
