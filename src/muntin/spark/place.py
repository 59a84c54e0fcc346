"""The place of a row among those of its micro-batch, which many tasks read: by it they are put in order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from muntin.errors import SchemaError
from muntin.spark.stream_of import quoted

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def placed(df: DataFrame, columns: Sequence[str], position: str | None, what: str) -> DataFrame:
    """Some columns, and after them the place of each row: its `position`, or its file and its place there. Errors call
    the DataFrame `what`."""
    chosen = [quoted(name) for name in columns]
    if position is not None:
        kind = dict(df.dtypes)[position]
        if kind not in _WHOLE_NUMBERS:
            raise SchemaError(f"the position of {what} must be BIGINT, not {kind.upper()}")
        return df.select(*chosen, quoted(position))
    try:  # of files Spark knows where each row is from; whoever reads something else has no such column
        found = df.select(*chosen, "_metadata.file_path", "_metadata.file_block_start")
        return found if found.columns else df.select(*chosen)
    except AnalysisException:
        return df.select(*chosen)
