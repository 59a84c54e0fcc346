"""What programs can build on, as data: `docs/generate.py` makes tables of it for reference/stability.md, and
tests/docs/test_stability.py looks that every public name has a mark.

A new name is entered here with its mark. Names of a class go with the class; those of `Engine` have their own.
"""

from __future__ import annotations

from typing import NamedTuple


class Marks(NamedTuple):
    """The names of one area, apart by spaces; where names have spaces, by commas."""

    stable: str
    experimental: str = ""
    deprecated: str = ""

    def of(self, mark: str) -> list[str]:
        text = str(getattr(self, mark))
        return [name.strip() for name in (text.split(",") if "," in text else text.split()) if name.strip()]


PYTHON = {
    "muntin": Marks(
        "__version__ Engine JoinQuery Query Stream Table TableQuery Window lookup_at merge_summaries "
        "ArchiveError CheckpointError FunctionError MissingPackage MuntinError NameTaken NoValue NotFound SchemaError "
        "SqlError WindowTooLarge",
        "aggregate function",
    ),
    "muntin.Engine": Marks(
        "advance alone check checkpoint close coverage drop execute explain load lookup lookup_at lookup_many note "
        "push queries query register register_many restore rewind rows select_many sources stats streams tables value",
        "query_stats sharing table_rows",
    ),
    "muntin.spark": Marks(
        "EventFolder ProgressListener answers_of keep_view local_session lookup_at overwrite_batches read_state "
        "scan_archive shared_windows",
        "RestoredState TableFrame answer_messages append_to_delta arrow_events explain publish_metrics restore",
        "archive_join",
    ),
    "muntin.archive": Marks(
        "Archive Definition EXPIRES GENERATED Touched View",
        "Choice Indexing VARIANTS Variant choose_indexing",
    ),
    "muntin.sketch": Marks(
        "CountSummary Frequent ItemSummary QuantileSummary SampledCounts SampledQuantiles SlidingCounts "
        "SlidingQuantiles merge_summaries"
    ),
    "muntin.testing": Marks("TradeStream WallClock", "ticker"),
    "muntin.synopsis.sketch": Marks("", "", "all names of muntin.sketch,"),
}
COMMANDS = Marks(
    "muntin run, muntin lookup-at, muntin explain, muntin serve, muntin doctor, muntin warm-up",
    "muntin demo, muntin bench, muntin spark state",
)
HTTP = Marks(
    "GET /health, GET /ready, GET /metrics, POST /checkpoint, POST /execute, GET /producers/{name}, GET /streams, "
    "POST /streams/{name}, GET /tables, GET /tables/{name}, POST /tables/{name}, GET /queries, POST /queries, "
    "GET /queries/{name}, PUT /queries/{name}, DELETE /queries/{name}, GET /queries/{name}/answer, "
    "POST /lookup, POST /lookup_at, GET /answers",
    "POST /explain, GET /answers/latest, GET /overview, GET /sharing, GET /sharing.svg",
)
AGGREGATES = Marks(
    "ARG_MAX ARG_MIN AVG BOOL_AND BOOL_OR CORR COUNT COUNT_IF COVAR_POP COVAR_SAMP FIRST LAST MAX MAX_BY MEDIAN MIN "
    "MIN_BY MODE QUANTILE REGR_INTERCEPT REGR_SLOPE STDDEV STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP "
    "APPROX_COUNT APPROX_COUNT_ERROR APPROX_FREQUENT APPROX_QUANTILE APPROX_QUANTILE_ERROR",
    "APPROX_COUNT_DISTINCT APPROX_COUNT_DISTINCT_ERROR APPROX_COUNT_SUMMARY APPROX_QUANTILE_SUMMARY",
)
# Forms of queries, statements and views, as the page on what runs where calls them; all others are stable.
EXPERIMENTAL_FORMS = (
    "`[SESSION …]`", "`[SESSION …] GROUP BY`", "`[SESSION …] EMIT CHANGES`", "`/*+ SYNOPSIS(…) */`",
    "a table LEFT JOIN a stream", "`[RANGE l.span UP TO …]`", "CREATE STREAM … AS SELECT",
    "CREATE STREAM … FROM QUERY", "REGISTER QUERY … FROM a view", "DISTINCT of one stream",
    "aggregates and GROUP BY of one stream",
)  # fmt: skip


def names_text(marks: Marks, mark: str) -> str:
    """The names of one mark as a cell of a table.

    >>> names_text(Marks("b a", "c"), "stable"), names_text(Marks("b a"), "experimental")
    ('`a`, `b`', '')
    """
    return ", ".join(f"`{name}`" for name in sorted(marks.of(mark)))
