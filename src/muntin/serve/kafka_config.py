"""How a client of Kafka is set up: brokers, what a file adds, and its log lines among ours."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from muntin.errors import MuntinError
from muntin.serve.options import Value
from muntin.view.folders import Folders

_OURS = (
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "bootstrap.servers",
)
log = logging.getLogger("muntin.kafka")


def client_settings(options: dict[str, Value | None], folders: Folders) -> dict[str, Any]:
    """Settings of librdkafka that consumers and producers share."""
    settings: dict[str, Any] = {
        "bootstrap.servers": str(options["brokers"]), "client.id": "muntin", "reconnect.backoff.max.ms": 2_000,
        "logger": log, "error_cb": lambda error: log.debug("%s", error),
        "log_level": 2,  # a broker that is gone is told of by the source or sink, once for each attempt
    }  # fmt: skip
    return settings | _read(options.get("config"), folders)


def _read(path: Value | None, folders: Folders) -> dict[str, str]:
    """The lines of a file, `name=value`; what begins with # is a remark."""
    if path is None:
        return {}
    folders.require(path, "the settings of Kafka")
    try:
        lines = Path(str(path)).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MuntinError(f"settings of Kafka cannot be read from '{path}': {error}") from None
    found = dict[str, str]()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (each.strip() for each in line.partition("="))
        if not equals or not name or name in _OURS:
            raise MuntinError(f"line {number} of '{path}' is no setting of librdkafka that can be given here")
        found[name] = value
    return found
