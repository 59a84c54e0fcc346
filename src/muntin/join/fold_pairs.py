"""Aggregates of a join: pairs as events of a stream that lasts for one look-up.

The pairs in the windows of an instant become events at that instant, in their order, and the query's
aggregates an ordinary query over them. So every aggregate, GROUP BY and HAVING means for pairs what it means
for events. Costs a look-up over as many events as there are pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from muntin.join_query import PAIR_NUMBER, PAIR_TIME
from muntin.operator.lookup import answers_at
from muntin.operator.shard import Shard
from muntin.plan import request_of
from muntin.query import Query
from muntin.synopsis.contract import Ints

_NAME = "fold"


def fold_pairs(query: Query, columns: Mapping[str, pa.Array], at: Ints, instants: Ints) -> pa.Table:
    """Answers at all `instants`, in order, of the pairs that each is `at`; within one, keys stand in the order
    of their first pair."""
    shard = Shard(query.stream, backlog_bytes=0, adaptive=False)
    shard.register({_NAME: request_of(query)})
    numbered = {PAIR_TIME: pa.array(at - 1), PAIR_NUMBER: pa.array(np.arange(len(at)))}
    shard.insert(pa.table({**columns, **numbered}))
    table = answers_at(shard, _NAME, instants)
    if query.keys and table.num_rows:
        first = np.asarray(table.column(PAIR_NUMBER))  # pairs are numbered on from instant to instant
        table = table.take(pa.array(np.argsort(first, kind="stable")))
    return table.drop_columns([PAIR_NUMBER])
