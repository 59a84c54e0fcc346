"""Pages in a browser that call a server without tokens, which cannot tell them from its owner's programs.

Any site that somebody visits may send requests to ports of the same machine. A form that it posts changes something,
though the site never sees the answer; it names the site as `Origin`. And a site may give its own name the address
127.0.0.1 (DNS rebinding): then its pages read answers, too, and the name stands in `Host`. So a server without tokens
answers to names of its own machine alone, and pages change something only if they are its own, or of a site that was
named. With tokens it asks for one, which other sites do not have.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

_READING = ("GET", "HEAD", "OPTIONS")


class Pages:
    """Those that may call.

    >>> pages = Pages(asks_for_tokens=False)
    >>> pages.fault("GET", [(b"host", b"localhost:8088")])
    >>> pages.fault("POST", [(b"host", b"[::1]:8088"), (b"origin", b"https://elsewhere.example")])
    "pages of 'https://elsewhere.example' may change nothing here; --cors names sites that may"
    """

    def __init__(self, asks_for_tokens: bool, origins: Sequence[str] = ()):
        self._asks_for_tokens = asks_for_tokens
        self._origins = {each.encode() for each in origins}

    def fault(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Why a request is refused, if it is. Programs may leave out both headers; browsers never do."""
        if self._asks_for_tokens:
            return None
        host, origin = b"", None
        for name, value in headers:
            if name == b"host":
                host = value
                if not is_local(host):
                    return (
                        f"without tokens this server goes by names such as localhost and 127.0.0.1, not by "
                        f"'{_shown(host)}': start it with --tokens"
                    )
            elif name == b"origin":
                origin = value
        if origin is None or method in _READING or {b"*", origin} & self._origins:
            return None
        if host and origin.partition(b"://")[2].lower() == host.lower():
            return None
        return f"pages of '{_shown(origin)}' may change nothing here; --cors names sites that may"

    def knows(self, host: bytes) -> bool:
        """Whether a request may name this host."""
        return self._asks_for_tokens or is_local(host)


@lru_cache(256)
def is_local(host: bytes) -> bool:
    """Whether a Host, or an address without a port, is one of this machine alone.

    >>> [is_local(each) for each in (b"localhost:8088", b"[::1]:1", b"::1", b"127.1.2.3")]
    [True, True, True, True]
    >>> [is_local(each) for each in (b"localhost.example", b"", b"127.0.0.1:x")]
    [False, False, False]
    """
    text = host.decode("latin-1").lower()
    name, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or (name.count(":") and not name.startswith("[")):
        name = text
    if name.removesuffix(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _shown(value: bytes) -> str:
    return value[:100].decode("latin-1")
