"""A stream replayed under many queries at once, for people to watch."""

from muntin.demo.display import open_display
from muntin.demo.replay import open_source, play

__all__ = ["open_display", "open_source", "play"]
