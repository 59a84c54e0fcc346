"""Parts of joins on their way: what each shard says of a window, and the answers that all shards' parts come to.

A query may have come by a statement, so a part carries the text of its query (join/part.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from muntin.join.part import PART, merge_parts
from muntin.join_query import JoinQuery
from muntin.spark.join_job import JoinJob


def is_part(table: pa.Table) -> bool:
    """Whether a shard's answers are partials."""
    return PART in (table.schema.metadata or {})


def split_parts(parts: Mapping[str, pa.Table]) -> Iterator[tuple[str, int, pa.Table]]:
    """The rows of each window, with the query and when the window ends; rows are in order of these."""
    for name, table in parts.items():
        ends = np.asarray(table["window_end"].combine_chunks().cast(pa.int64()))
        edges = np.flatnonzero(np.diff(ends, prepend=ends[0] - 1, append=ends[-1] + 1)).tolist()
        for lo, hi in pairwise(edges):
            yield name, int(ends[lo]), table.slice(lo, hi - lo)


def whole_join(job: JoinJob, parts: pa.Table) -> pa.Table:
    """The answers of one query, from the parts of all shards."""
    text = parts.schema.metadata[PART].decode()
    place = (job.fingerprint, text)
    if place not in _PARSED:
        if len(_PARSED) >= _MOST_PARSED:
            _PARSED.clear()
        _PARSED[place] = job.read(text)
    return merge_parts(_PARSED[place], parts)


_PARSED: dict[tuple[str, str], JoinQuery] = {}  # by job and text
_MOST_PARSED = 1024
