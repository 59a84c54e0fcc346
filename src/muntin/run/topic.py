"""Topics of Kafka in the place of files: what a stream's WITH (source = 'kafka', …) says to a run on Spark.

The statement is that of `muntin serve`. A run is finite, so it reads what the topic holds when it starts, from its
beginning to its end. An option that Spark's connector does not know is refused at the word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muntin.errors import MuntinError
from muntin.serve.options import filled, read_options
from muntin.sql.dialect import read_script
from muntin.sql.place import Misfit, pointing_into
from muntin.sql.syntax import CreateStreamSyntax, OptionsSyntax

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_KAFKA = "kafka"
_REFUSED = {
    ("format", "csv"): "Spark's connector reads messages of JSON or Arrow: format = 'json' or 'arrow'",
    ("start", "latest"): "a run reads what the topic holds, from its beginning: start = 'earliest'",
}
_NO_CONFIG = (
    "these settings are of librdkafka, and Spark's connector is Java: read the topic in a program of your own, with "
    "muntin.spark.shared_windows"
)
_NO_TOPIC = "a run on Spark does not write messages: bad = 'fail' or 'skip'"


@dataclass(frozen=True)
class Topic:
    """Messages that are events of a stream."""

    brokers: str
    topic: str
    format: str  # json or arrow
    skips_bad: bool

    @property
    def reader_options(self) -> dict[str, str]:
        """Of Spark's connector: all that is there now."""
        return {
            "kafka.bootstrap.servers": self.brokers, "subscribe": self.topic,
            "startingOffsets": "earliest", "endingOffsets": "latest",
        }  # fmt: skip

    def read(self, session: SparkSession, schema: StructType, time: str) -> DataFrame:
        """The events of the topic, as a table; an error names the connector if it is not there."""
        from pyspark.errors import AnalysisException

        try:
            messages = session.read.format(_KAFKA).options(**self.reader_options).load()
        except AnalysisException as error:
            if "DATA_SOURCE" not in str(error.getCondition()) and "find data source" not in str(error):
                raise
            raise MuntinError(f"to read topic '{self.topic}' {how_to_have_it()}") from error
        return self.events(messages, schema, time)

    def events(self, messages: DataFrame, schema: StructType, time: str) -> DataFrame:
        """The events in messages, a column `value` of bytes: JSON objects or lists of them, or batches in Arrow's
        stream format. A message that cannot be read fails the run, or is left out."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType

        from muntin.spark import arrow_events
        from muntin.spark.stream_of import quoted

        if self.format == "json":
            mode = {"mode": "PERMISSIVE" if self.skips_bad else "FAILFAST"}
            decoded = F.from_json(F.col("value").cast("string"), ArrayType(schema), mode)
            events = messages.select(F.inline(decoded))
        else:
            events = arrow_events(messages, schema)
        return events.where(F.col(quoted(time)).isNotNull()) if self.skips_bad else events


def how_to_have_it() -> str:
    """Spark's connector by its name in Maven, in the version of the Spark that is installed."""
    import pyspark

    artifact = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    return (
        f"Spark needs its connector for Kafka: add --packages {artifact}, or --conf spark.jars=… with its jars "
        "where there is no Maven"
    )


def topics_of(text: str, streams: Collection[str]) -> dict[str, Topic]:
    """The topics that some streams of a script are read from, by stream."""
    found = {}
    with pointing_into(text):
        for statement in read_script(text):
            match statement:
                case CreateStreamSyntax(name=name, source=source) if (
                    source is not None and name.text in streams
                ):
                    if (topic := _topic_of(source)) is not None:
                        found[name.text] = topic
    return found


def _topic_of(source: OptionsSyntax) -> Topic | None:
    given = read_options(source, "source")
    if given["source"] != _KAFKA:
        return None
    for each in source.options:
        told: Any = _REFUSED.get((each.name.text, str(each.value)))
        if each.name.text == "config":
            told = _NO_CONFIG
        elif each.name.text == "bad" and str(each.value).startswith("topic:"):
            told = _NO_TOPIC
        if told:
            raise Misfit(told, each.span)
    options = filled(given, "source")
    return Topic(
        str(options["brokers"]), str(options["topic"]), str(options["format"]), options["bad"] == "skip"
    )
