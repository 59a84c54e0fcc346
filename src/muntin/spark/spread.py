"""Spread queries: approximate ones without keys, answered by all shards together.

Every shard has the sketch of a share of the events, dealt out as they come, and gives out the *summary* of each window
in place of its answer (APPROX_QUANTILE_SUMMARY, APPROX_COUNT_SUMMARY). A last step merges those of a window and makes
the answer. A window is cut by time, and each shard is within eps of its own share of it, wherever its blocks begin: so
the sum is within eps of all. Where a promise may fail by a chance, each shard has an equal part of that chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from muntin.aggregates import AGGREGATES
from muntin.aggregates.approximate import (
    APPROXIMATE_NAMES,
    ApproxCount,
    ApproxCountSummary,
    ApproxFrequent,
    ItemAggregate,
)
from muntin.answer import to_arrow
from muntin.errors import NoValue
from muntin.fixed_point import is_decimal
from muntin.plan.demand import needs_of
from muntin.query import Call, Query
from muntin.shard.read.reading import answer_type
from muntin.sketch import ItemSummary, QuantileSummary, merge_summaries
from muntin.sketch.kinds import is_weighted, partials_of, promise_of
from muntin.sql.bind import row_scope
from muntin.sql.expressions import compile_expression
from muntin.store.needs import Need, storage

Summary = QuantileSummary | ItemSummary
# hashes have no summary: what is known of them is whole in one shard
_SPREAD = {name for name in APPROXIMATE_NAMES if not AGGREGATES[name].hashes}


def is_spread(query: Query) -> bool:
    """Whether all shards can answer a query together. Summaries of quantiles know no scale, so none of decimals."""
    return (
        not query.keys
        and query.hint is None
        and not query.emits_changes
        and bool(query.calls)
        and all(call.function in _SPREAD and call.window.is_time for call in query.calls)
        and not any(call.argument is not None and is_decimal(call.argument.type) for call in query.calls)
    )


def share_text(query: Query, shards: int) -> str:
    """The query that each shard answers for its share: all summaries that the whole one is made of."""
    items = [f"{text} AS {name}" for text, name in _summaries(query, shards).items()]
    window = f" {query.window}" if query.window else ""
    where = f" WHERE {query.where}" if query.where else ""
    return f'SELECT {", ".join(items)} FROM "{query.stream.name}"{window}{where}'


def _summaries(query: Query, shards: int) -> dict[str, str]:
    """The calls of `share_text`, with the names of their columns."""
    texts = dict.fromkeys(_summary_text(query, call, shards) for call in query.calls)
    return {text: f"s{number}" for number, text in enumerate(texts)}


def _summary_text(query: Query, call: Call, shards: int) -> str:
    (need,) = needs_of(call)
    eps, delta = promise_of(need)
    name = f"approx_{'count' if isinstance(AGGREGATES[call.function], ItemAggregate) else 'quantile'}_summary"
    chance = () if delta is None else (f"{delta / shards:.20f}",)
    kept = f" FILTER (WHERE {call.filter})" if call.filter else ""
    item, *weight = _written(query, need)
    arguments = [item, f"{eps:.20f}", *chance, *(f"weight => {each}" for each in weight)]
    return f"{name.upper()}({', '.join(arguments)}){kept} OVER {call.window}"


def _written(query: Query, need: Need) -> list[str]:
    """What is summed up, as it may stand in a query, and its weight if it has one."""
    argument = need.input.argument
    assert argument is not None
    if not is_weighted(need):
        return [str(argument)]
    rows, pair = row_scope(query.stream), argument.tree
    return [str(compile_expression(each.copy(), rows)) for each in (pair.this, pair.expression)]


def whole_answer(query: Query, shards: int, parts: pa.Table) -> pa.Table:
    """The answer of one window, if HAVING lets it pass and all its values exist, from what the shards said of it: a
    row each."""
    merged: dict[str, Summary] = {
        text: merge_summaries(parts[name].to_pylist()) for text, name in _summaries(query, shards).items()
    }
    named: dict[str, pa.Array] = {
        f"${number}": _lower(call, merged[_summary_text(query, call, shards)])
        for number, call in enumerate(query.calls)
    }
    try:
        if query.having is not None and not query.having.evaluate(named)[0].as_py():
            return query.answer_schema().empty_table()
        values = [output.expression.evaluate(named) for output in query.outputs]
    except (NoValue, pa.ArrowException) as error:
        reason = str(error)
        warnings.warn(
            f"a row is left out, for which there is no value: {reason}", RuntimeWarning, stacklevel=2
        )
        return query.answer_schema().empty_table()
    bounds = [parts[side].combine_chunks()[:1] for side in ("window_start", "window_end")]
    complete = pa.array([all(parts["complete"].to_pylist())])
    return pa.Table.from_arrays([*values, *bounds, complete], schema=query.answer_schema())


def _lower(call: Call, summary: Summary) -> pa.Array:
    """The answer of a call, as one element."""
    aggregate, kind = AGGREGATES[call.function], answer_type(call)
    (need,) = needs_of(call)
    if isinstance(summary, QuantileSummary):
        value, valid, _ = aggregate.lower({need.component: partials_of([need], [summary])[need]})
        return to_arrow(value, valid, kind)
    if isinstance(aggregate, ApproxCount):
        return pa.array([aggregate.read(summary.counts, _place(call, summary))], kind)
    if isinstance(aggregate, ApproxCountSummary):
        return pa.array([summary.to_text()], kind)
    assert isinstance(aggregate, ApproxFrequent)
    rows = [
        {"item": each.item, "estimate": each.lower, "lower": each.lower, "upper": each.upper}
        for each in summary.frequent(need.parameters[0])
    ]
    return pa.array([rows], kind)


def _place(call: Call, summary: ItemSummary) -> int:
    """Where the item is that APPROX_COUNT counts: text, or a number as state keeps it."""
    item, kind = call.parameters[0], summary.value.type
    if isinstance(item, str):
        return summary.find(item)
    kept = np.array([item], storage(kind))
    return summary.find(to_arrow(kept, np.ones(1, np.bool_), kind)[0].as_py())


def split_windows(answers: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """What a shard said of each window, with when the window ends, or it is looked up."""
    for row, end in enumerate(answers["window_end"].combine_chunks().view(pa.int64()).to_pylist()):
        yield end, answers.slice(row, 1)
