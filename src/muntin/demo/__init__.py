"""A stream replayed under many queries at once, for people to watch."""

from muntin.demo.display import open_display
from muntin.demo.replay import play
from muntin.demo.source import open_source

__all__ = ["open_display", "open_source", "play"]
