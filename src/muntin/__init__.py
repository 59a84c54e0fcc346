"""muntin: thousands of sliding-window queries over one stream, sharing their state and work.

A query is a lookup into a synopsis that many queries share.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muntin.engine import Engine, lookup_at
    from muntin.errors import (
        ArchiveError,
        CheckpointError,
        FunctionError,
        MissingPackage,
        MuntinError,
        NameTaken,
        NotFound,
        NoValue,
        SchemaError,
        SqlError,
        WindowTooLarge,
    )
    from muntin.join_query import JoinQuery
    from muntin.own import aggregate, function
    from muntin.query import Query
    from muntin.sketch import merge_summaries
    from muntin.stream import Stream
    from muntin.table import Table
    from muntin.table_query import TableQuery
    from muntin.window import Window

__version__ = "0.2.0"

# Found when first asked for: `muntin --help` need not load an engine.
_HOME = {
    "Engine": "engine",
    "ArchiveError": "errors",
    "CheckpointError": "errors",
    "FunctionError": "errors",
    "MissingPackage": "errors",
    "MuntinError": "errors",
    "NameTaken": "errors",
    "NoValue": "errors",
    "NotFound": "errors",
    "SchemaError": "errors",
    "SqlError": "errors",
    "WindowTooLarge": "errors",
    "JoinQuery": "join_query",
    "Query": "query",
    "Stream": "stream",
    "Table": "table",
    "TableQuery": "table_query",
    "Window": "window",
    "aggregate": "own",
    "function": "own",
    "lookup_at": "engine",
    "merge_summaries": "sketch",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"muntin.{_HOME[name]}"), name)
    raise AttributeError(f"module 'muntin' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


__all__ = [
    "ArchiveError",
    "CheckpointError",
    "Engine",
    "FunctionError",
    "JoinQuery",
    "MissingPackage",
    "MuntinError",
    "NameTaken",
    "NoValue",
    "NotFound",
    "Query",
    "SchemaError",
    "SqlError",
    "Stream",
    "Table",
    "TableQuery",
    "Window",
    "WindowTooLarge",
    "__version__",
    "aggregate",
    "function",
    "lookup_at",
    "merge_summaries",
]
