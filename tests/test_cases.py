"""Every runtime gives the answers written in cases/*.case (format: cases/README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from answers import is_close
from casefile import (
    Advance,
    Case,
    Checkpoint,
    Derive,
    Drop,
    Late,
    Lookup,
    Push,
    Register,
    Table,
    read_case,
    read_cell,
    write_case,
)  # fmt: skip
from cold import read_cold
from reference import declared
from reference_cascade import derived
from runtimes import RUNTIMES, Runtime

CASES = sorted((Path(__file__).parent / "cases").glob("*.case"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_case(path: Path, runtime: str) -> None:
    """What the header of the case says."""
    run_case(read_case(path.read_text()), RUNTIMES[runtime]())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_can_be_written(path: Path) -> None:
    """Writing a case and reading it again changes nothing, so printed failures can be kept as files."""
    case = read_case(path.read_text())
    assert repr(read_case(write_case(case))) == repr(case)


def run_case(case: Case, runtime: Runtime) -> None:
    streams = {stream.name: stream for stream in map(declared, case.streams)}
    schemas: dict[str, pa.Schema] = {}
    queries: dict[str, Any] = {}
    for sql in case.streams:
        runtime.create(sql)
    for step in case.steps:
        match step:
            case Register(name, sql):
                queries[name] = read_cold(sql, streams)
                schemas[name] = queries[name].emission_schema()
                runtime.register(name, sql)
            case Derive(sql):
                made = derived(sql, streams, queries)
                assert made is not None
                streams[made.stream.name] = made.stream
                runtime.derive(sql)
            case Push(stream, batch):
                runtime.push(stream, batch)
            case Lookup(query, keys, at, expected):
                rows = runtime.lookup(query, keys, at)
                if expected:
                    assert_rows(expected, rows, schemas[query], f"lookup {query}", runtime.is_ordered)
            case Advance(until, tables):
                emitted = runtime.advance(until)
                for name, table in tables.items():
                    rows = emitted.get(name, [])
                    assert_rows(table, rows, schemas[name], f"emitted {name}", runtime.is_ordered)
            case Drop(name):
                runtime.drop(name)
            case Checkpoint():
                runtime.checkpoint()
            case Late(stream, many):
                assert runtime.late(stream) == many


def assert_rows(
    expected: Table, rows: list[dict[str, Any]], schema: pa.Schema, context: str, is_ordered: bool = True
) -> None:
    """The named columns of the rows are those of the table, in its order or in any."""
    wanted = [
        {
            name: read_cell(cell, schema.field(name).type)
            for name, cell in zip(expected.columns, row, strict=True)
        }
        for row in expected.rows
    ]
    got = [{name: row[name] for name in expected.columns} for row in rows]
    if not is_ordered:
        got = _in_order_of(wanted, got)
    same = len(wanted) == len(got) and all(
        is_close(one[name], other[name]) for one, other in zip(wanted, got, strict=True) for name in one
    )
    assert same, "\n".join([context, "expected:", *map(str, wanted), "got:", *map(str, got or rows)])


def _in_order_of(wanted: list[dict[str, Any]], got: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, those that are wanted first and in the order in which they are."""
    left, found = list(got), []
    for row in wanted:
        for place, other in enumerate(left):
            if all(is_close(row[name], other[name]) for name in row):
                found.append(left.pop(place))
                break
    return found + left
