"""Spark Connect: its sessions are clients. Another process plans and runs what they ask for, and has the JVM.

What muntin hands to Spark travels by pickle, so nearly all of it goes through a client, too. What needs the driver
itself is refused here, with the reason.
"""

from __future__ import annotations

from typing import Any

from muntin.errors import MuntinError


def is_client(session: Any) -> bool:
    """Whether a session, or something else that Spark made, is of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def refuse_client(session: Any, call: str, why: str) -> None:
    """An error that names the call, if a session is of Spark Connect."""
    if is_client(session):
        raise MuntinError(f"{call} cannot be used with a session of Spark Connect: {why}")
