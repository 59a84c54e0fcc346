"""Lines of the server's own log: text for people, or JSON for programs that collect logs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from muntin.errors import MuntinError

FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """A JSON object for each line.

    >>> line = JsonLines().format(logging.LogRecord("muntin.serve", 20, "", 0, "opened %s", ("x",), None))
    >>> json.loads(line)["level"], json.loads(line)["message"]
    ('info', 'opened x')
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in the message."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def set_up_log(kind: str) -> None:
    """Write the log to stderr in one of the `FORMATS`."""
    if kind not in FORMATS:
        raise MuntinError(f"a log is written as {' or '.join(FORMATS)}, not as '{kind}'")
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonLines() if kind == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
