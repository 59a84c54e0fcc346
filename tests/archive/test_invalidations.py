"""Invalidations end the results that their definition says, at every boundary of time and of updates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Definition
from muntin.archive.liveness import Invalidations
from muntin.errors import SchemaError

COLUMNS = pa.schema([("v", pa.string()), ("w", pa.int64())])


def defined(negated_on):
    return Definition(COLUMNS, ("v",), 10, 2, negated_on=negated_on)


def drawn(random, count):
    """Values with NULL among them."""
    return {
        "v": pa.array(random.choice(["a", "b", "c", None], count).tolist(), pa.string()),
        "w": pa.array(random.choice([1, 2, None], count).tolist(), pa.int64()),
    }


@pytest.mark.parametrize("negated_on", [("v",), ("v", "w")])
def test_a_result_ends_if_an_entry_has_its_values_and_does_not_come_before_it(negated_on):
    random = np.random.default_rng(3)
    definition = defined(negated_on)
    for _ in range(40):
        known, entries = Invalidations(definition), []
        for update in range(int(random.integers(0, 4))):
            count = int(random.integers(0, 4))
            given, at = drawn(random, count), random.integers(0, 6, count).tolist()
            known = known.with_entries(definition, {**given, "invalidated_at": at}, update, 6)
            values = zip(*(given[name].to_pylist() for name in negated_on), strict=True)
            entries += [(value, when, update) for value, when in zip(values, at, strict=True)]
        results = drawn(random, 30)
        generated = random.integers(0, 7, 30).tolist()
        rows = pa.table({**results, "generated_at": pa.array(generated, pa.int64())})
        for since in range(-1, 3):
            later = [(value, when) for value, when, update in entries if update > since]
            newer = known.since(definition, since)
            assert len(newer) == len(later)
            expected = [
                any(value == entry and made <= when for entry, when in later)
                for value, made in zip(
                    zip(*(results[name].to_pylist() for name in negated_on), strict=True),
                    generated,
                    strict=True,
                )
            ]
            assert newer.is_hit(rows).tolist() == expected
        for name in negated_on:
            for value in {"v": ["a", "b", "c"], "w": [1, 2]}[name]:
                has_entry = any(entry[negated_on.index(name)] == value for entry, *_ in entries)
                assert known.may_end({name: value}) == has_entry
        assert known.may_end({}) == bool(entries)


def test_the_update_itself_is_the_last_instant_of_an_entry():
    definition = defined(("v",))
    assert (
        len(Invalidations(definition).with_entries(definition, {"v": ["a"], "invalidated_at": [6]}, 1, 6))
        == 1
    )
    with pytest.raises(SchemaError, match="an invalidation at 7 comes after the update at 6"):
        Invalidations(definition).with_entries(definition, {"v": ["a"], "invalidated_at": [7]}, 1, 6)
