"""The embedded runtime."""

from muntin.engine.engine import Engine
from muntin.engine.replay import lookup_at

__all__ = ["Engine", "lookup_at"]
