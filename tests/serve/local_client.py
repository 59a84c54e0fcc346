"""A client in this process, which calls an app by a name that a server without tokens goes by."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient


class LocalClient(TestClient):
    """FastAPI's own, at localhost."""

    def __init__(self, app: Any):
        super().__init__(app, base_url="http://localhost")
