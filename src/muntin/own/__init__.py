"""Functions of the user's own, by name: aggregates (`aggregate.py`) and functions of one row (`function.py`)."""

from muntin.own.aggregate import aggregate
from muntin.own.function import function

__all__ = ["aggregate", "function"]
