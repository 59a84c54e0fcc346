"""muntin: thousands of sliding-window queries over one stream, sharing their state and work.

A query is a lookup into a synopsis that many queries share.
"""

from muntin.answer import Answers
from muntin.engine import Engine
from muntin.errors import (
    CheckpointError,
    MuntinError,
    NameTaken,
    NotFound,
    SchemaError,
    SqlError,
    WindowTooLarge,
)
from muntin.query import Query
from muntin.stream import Stream
from muntin.window import Window

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "CheckpointError",
    "Engine",
    "MuntinError",
    "NameTaken",
    "NotFound",
    "Query",
    "SchemaError",
    "SqlError",
    "Stream",
    "Window",
    "WindowTooLarge",
    "__version__",
]
