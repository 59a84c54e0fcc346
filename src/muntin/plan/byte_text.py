"""Sizes of state in words."""

from __future__ import annotations


def byte_text(count: int) -> str:
    """
    >>> byte_text(1536), byte_text(10)
    ('1.5 KiB', '10 bytes')
    """
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"
