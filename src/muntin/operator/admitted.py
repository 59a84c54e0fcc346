"""What of a batch a stream takes in: events that are neither late nor ahead, in the order they came."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from muntin.arrays import Ints


class Admitted(NamedTuple):
    """Events in the stream's schema, as its clock has judged them."""

    events: pa.RecordBatch
    at: Ints  # their times
    ascends: bool
    late_events: int  # how many others were late …
    ahead_events: int = 0  # … and how many were ahead
