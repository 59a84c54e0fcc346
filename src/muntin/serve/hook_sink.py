"""Answers to an HTTP hook: a POST of JSON for each portion.

    {"sink": "pager", "answers": [{"query": "busy", "id": "7-120", …}, …]}

A status of 2xx says that the answers have arrived. Anything else, a redirect too, is a failure, and the same answers
are posted again.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muntin.errors import MuntinError
from muntin.serve.options import Given, filled
from muntin.serve.portion import Part, PortionPlace
from muntin.serve.told_answers import chunks
from muntin.view.folders import Folders


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """None: a redirected POST would come as a GET, without the answers."""


class HookOutlet:
    """An address that answers are posted to."""

    most_bytes = 2**20
    most_seconds = 0.0

    def __init__(self, name: str, given: Given, folders: Folders):
        options = filled(given, "sink")
        self._name, self._url = name, str(options["url"])
        self._rows, self._seconds = int(options["rows"] or 1), float(options["seconds"] or 1)
        self._headers = {"Content-Type": "application/json"}
        if options["token_file"] is not None:
            self._headers["Authorization"] = f"Bearer {_token(Path(str(options['token_file'])), folders)}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, parts: Sequence[tuple[PortionPlace, Part]], stopping: threading.Event) -> None:
        """A request for each so many answers."""
        for rows in chunks(parts, self._rows):
            self._post(rows)

    def close(self) -> None:
        """Nothing is held."""

    def _post(self, rows: list[dict[str, Any]]) -> None:
        body = json.dumps({"sink": self._name, "answers": rows}).encode()
        request = urllib.request.Request(self._url, body, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            raise MuntinError(f"{self._url} answers with status {error.code}") from None
        except OSError as error:  # also URLError and what takes too long
            raise MuntinError(f"{self._url} cannot be reached: {getattr(error, 'reason', error)}") from None


def _token(path: Path, folders: Folders) -> str:
    folders.require(path, "the token of a sink")
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MuntinError(f"the token cannot be read from '{path}': {error}") from None
