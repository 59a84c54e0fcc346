"""How the plan says numbers and names."""

from __future__ import annotations

_SHOWN = 6  # names of a kind before "… and n more"


def count(number: int, one: str, many: str) -> str:
    """
    >>> count(1, "query", "queries"), count(1200, "query", "queries")
    ('1 query', '1,200 queries')
    """
    return f"{number:,} {one if number == 1 else many}"


def some(names: list[str]) -> str:
    """
    >>> some(["a", "b"])
    'a, b'
    """
    more = f", … and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def number(value: float) -> str:
    """
    >>> number(0.012345), number(12.345), number(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(nbytes: int) -> str:
    """
    >>> size(1536), size(10)
    ('1.5 KiB', '10 bytes')
    """
    left, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if left < 1024:
            break
        left, unit = left / 1024, larger
    return f"{left:.4g} {unit}"
