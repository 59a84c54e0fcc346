"""A packed source: where the driver has tasks make packed rows of a job, as a data source of Spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from muntin.spark.job import Job


class PackedSource(DataSource):
    """Subclasses say what is read, and subclasses of these of which job."""

    job: Job
    packed: str  # the schema of packed rows

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    def schema(self) -> str:
        return self.packed

    @classmethod
    def frame(cls, session: SparkSession, name: str, is_streaming: bool, **told: Any) -> DataFrame:
        """What there is to read. Spark knows a source by its class, so each job has one of its own, with what it is
        `told`."""
        source = type(f"muntin_{name}", (cls,), told)
        session.dataSource.register(source)
        read: Any = session.readStream if is_streaming else session.read
        loaded: DataFrame = read.format(source.__name__).load()
        return loaded
