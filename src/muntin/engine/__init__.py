"""The embedded runtime."""

from muntin.loading import told_if_slow

with told_if_slow():
    from muntin.engine.engine import Engine
    from muntin.engine.replay import lookup_at

__all__ = ["Engine", "lookup_at"]
