"""Delta tables without Delta's connector for Spark: answers into one, each micro-batch once, and one as a history.

A Delta table is a folder of Parquet files and a log that says which of them count. The log may note, with the files of
a commit, the number of a *transaction* of an application: the application is the streaming query, known by the id in
its checkpoint, and its transactions are the micro-batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyspark.sql import DataFrame

from muntin.argument import text_of
from muntin.errors import ArchiveError, MissingPackage, MuntinError
from muntin.spark.shared_path import shared_path

LOG = "_delta_log"


def append_to_delta(path: str, checkpoint: str) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: each micro-batch is one commit of the Delta table at `path`, and is there once.

    `checkpoint` is the checkpoint location of the streaming query. A micro-batch that Spark repeats after a failure is
    skipped if the table has it. A driver that was given up, and still writes while another goes on from its checkpoint,
    is refused. Answers pass through the driver, a micro-batch at a time.

        write = muntin.spark.append_to_delta("/lake/answers", "/checkpoints/answers")
        answers.writeStream.foreachBatch(write).option("checkpointLocation", "/checkpoints/answers").start()
    """
    text_of("path", path)
    begun_by = shared_path("checkpoint", checkpoint)
    _delta()

    def write(answers: DataFrame, batch: int) -> None:
        delta = _delta()
        owner = str(json.loads((begun_by / "metadata").read_text())["id"])
        # opened before the answers are made: what another driver commits from here on is a conflict
        table = delta.DeltaTable(path) if delta.DeltaTable.is_deltatable(path) else None
        last = None if table is None else table.transaction_version(owner)
        if table is None and batch:  # the first micro-batch makes the table, whether it has answers or not
            raise ArchiveError(
                f"checkpoint '{checkpoint}' goes on with micro-batch {batch}, but there is no Delta table at '{path}'; "
                "bring it back, or start with a new checkpoint"
            )
        # of a replay, too: the state of a micro-batch advances when its answers are made
        rows = answers.toArrow()
        if last is not None and batch <= last:
            return
        if table is None:
            # a path instead of a table would be opened at the write, when nothing of another driver is a conflict
            delta.write_deltalake(path, rows.schema.empty_table(), mode="ignore")
            table = delta.DeltaTable(path)
            if table.transaction_version(owner) is not None:
                raise ArchiveError(
                    f"another driver of checkpoint '{checkpoint}' has written the first micro-batch to '{path}' while "
                    "this one made its answers"
                )
        if rows.num_rows or not batch:
            noted = delta.CommitProperties(app_transactions=[delta.Transaction(owner, batch)])
            # columns may come: those of queries that are new
            delta.write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=noted)

    return write


def is_delta(path: str) -> bool:
    """Whether a folder is a Delta table: its files count only if its log says so."""
    return (Path(path) / LOG).is_dir()


def delta_files(path: str) -> list[Path]:
    """The files that count now, in the order of their names; an error if they alone do not tell what rows there are."""
    table = _delta().DeltaTable(path)
    if found := table.metadata().partition_columns:
        raise MuntinError(
            f"Delta table '{path}' is partitioned by {', '.join(found)}, which is not in its files: give one without "
            "partitions"
        )
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise MuntinError(
            f"Delta table '{path}' may have deletion vectors, so its files have rows that are deleted: purge them, and "
            "turn delta.enableDeletionVectors off"
        )
    return sorted(Path(url2pathname(urlsplit(each).path)) for each in table.file_uris())


def _delta() -> Any:
    try:
        return import_module("deltalake")
    except ImportError:
        raise MissingPackage("a Delta table needs deltalake: pip install 'muntin[delta]'") from None
