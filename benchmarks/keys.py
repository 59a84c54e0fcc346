"""Values encoded to dense ids per CPU second, beside Arrow's and pandas' encoders.

Theirs number the values of one batch; ours, and Arrow's with a look-up among all values known so far, keep
the ids from batch to batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import RUNS, Column, Result, measure_side_by_side
from muntin.keys.key_dictionary import Dictionary

COLUMNS = [
    Column("values", "values"), Column("distinct", "distinct", ",d"), Column("first", "first sight", ".1f"),
    Column("later", "known", ".1f"), Column("arrow_kept", "Arrow, ids kept", ".1f"),
    Column("arrow", "Arrow, one batch", ".1f"), Column("pandas", "pandas, one batch", ".1f"),
    Column("retain", "forgetting", ".1f"), Column("spread", "spread", ".0%"),
]  # fmt: skip
NOTES = """\
Millions of values per CPU second, in batches of {rows:,} drawn at random from the distinct values. *First
sight* is an empty dictionary's first batch, *known* a batch none of whose values is new. *Arrow, ids kept* is
`dictionary_encode`, then `index_in` for its distinct values among all known ones; *one batch* is
`dictionary_encode` and `pandas.factorize` alone, whose ids mean nothing in the next batch. *Forgetting* is
`retain` of every tenth id, in millions of ids. Encoders take turns. The ids are compared with those of
`pandas.factorize`. The spread is that of *known*, in CPU seconds."""


def run(quick: bool) -> Result:
    """Every kind of value at every number of distinct ones."""
    rows = 10_000 if quick else 1_000_000
    counts = (100, 1_000) if quick else (100, 10_000, 1_000_000)
    return Result(
        name="keys",
        title="Encoding keys",
        notes=" ".join(NOTES.format(rows=rows).split()),
        columns=COLUMNS,
        rows=[
            measure_kind(name, make(count), rows, 2 if quick else RUNS)
            for name, make in KINDS.items()
            for count in counts
        ],
        parameters={"runs": 2 if quick else RUNS, "batch_rows": rows},
    )


def _texts(pattern: str) -> Callable[[int], pa.Array]:
    return lambda count: pa.array([pattern.format(number) for number in _shuffled(count)])


def _shuffled(count: int) -> np.ndarray:
    return np.random.default_rng(1).permutation(count)


KINDS: dict[str, Callable[[int], pa.Array]] = {
    "BIGINT, 0 to n - 1": lambda count: pa.array(_shuffled(count)),
    "BIGINT, anywhere": lambda count: pa.array(np.random.default_rng(2).integers(-(2**62), 2**62, count)),
    "DOUBLE": lambda count: pa.array(np.random.default_rng(3).random(count)),
    "VARCHAR, up to 7 bytes": _texts("k{}"),
    "VARCHAR, 13 bytes": _texts("symbol {:06d}"),
    "VARCHAR, 36 bytes": _texts("{0:08x}-9f3b-4c1d-8a6e-{0:012x}"),
}


def measure_kind(name: str, values: pa.Array, rows: int, runs: int) -> dict[str, object]:
    """One row of the result."""
    rng = np.random.default_rng(4)
    batches = [values.take(pa.array(rng.integers(0, len(values), rows))) for _ in range(runs + 1)]
    known = Dictionary(values.type)
    known.encode(values)
    check_ids(values, batches[0], known)
    plain = batches[0].to_numpy(zero_copy_only=False)  # once: texts become objects
    forgetful = [Dictionary(values.type) for _ in batches]
    for each in forgetful:
        each.restore(values)
    tenth = np.arange(len(values)) % 10 == 0
    first, later, kept, arrow, pandas, retain = measure_side_by_side(
        [
            lambda run: Dictionary(values.type).encode(batches[run]),
            lambda run: known.encode(batches[run]),
            lambda run: encode_with_arrow(batches[run], values),
            lambda run: batches[run].dictionary_encode(),
            lambda run: pd.factorize(plain),
            lambda run: forgetful[run].retain(tenth),
        ],
        runs,
    )
    millions = rows / 1e6
    spread = (max(later.cpu_seconds) - min(later.cpu_seconds)) / later.cpu_median
    return {
        "values": name, "distinct": len(values), "first": millions / first.cpu_median,
        "later": millions / later.cpu_median, "arrow_kept": millions / kept.cpu_median,
        "arrow": millions / arrow.cpu_median, "pandas": millions / pandas.cpu_median,
        "retain": len(values) / 1e6 / retain.cpu_median, "spread": spread,
    }  # fmt: skip


def encode_with_arrow(batch: pa.Array, known: pa.Array) -> np.ndarray:
    """Ids of a batch in which nothing is new, by Arrow alone."""
    encoded = batch.dictionary_encode()
    ids = pc.index_in(encoded.dictionary, value_set=known).to_numpy()
    found: np.ndarray = ids[encoded.indices.to_numpy()]
    return found


def check_ids(values: pa.Array, batch: pa.Array, known: Dictionary) -> None:
    """Ids follow first appearance, in an empty dictionary and in one that knows all values."""
    expected, _ = pd.factorize(batch.to_numpy(zero_copy_only=False))
    assert np.array_equal(Dictionary(values.type).encode(batch), expected)
    assert values.take(pa.array(known.encode(batch))).equals(batch)
