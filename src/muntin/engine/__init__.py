"""The embedded runtime."""

from muntin.engine.engine import Engine

__all__ = ["Engine"]
