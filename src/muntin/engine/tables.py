"""Tables of an engine: rows as users give them, and what statements read of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Ints
from muntin.engine.event_file import history_batches
from muntin.join.answer import fold_pairs
from muntin.key_value import key_column
from muntin.table import Table
from muntin.table_query import RowsWhere, TableSelect
from muntin.tables.keyed_rows import KeyedRows, keyed_rows
from muntin.tables.rows import TableRows
from muntin.view.folders import Folders


def read_rows(table: Table, data: Any, folders: Folders) -> KeyedRows:
    """Rows of a path, an Arrow reader, or anything that `push` takes; SchemaError if they do not fit the table."""
    batches = list(history_batches(table, data, folders, "data"))
    whole = pa.Table.from_batches(batches, table.schema).combine_chunks().to_batches()
    none = [pa.array([], field.type) for field in table.schema]
    return keyed_rows(table, whole[0] if whole else pa.RecordBatch.from_arrays(none, schema=table.schema))


def find_rows(rows: TableRows, where: RowsWhere) -> Ints:
    """The slots of the rows that a condition lets pass, in the order of the table."""
    if where.key is None:
        slots = rows.slots
    else:
        names = rows.table.key
        kinds = [rows.table.column(name).type for name in names]
        key = [
            key_column([value], kind, name) for value, kind, name in zip(where.key, kinds, names, strict=True)
        ]
        slots = rows.find(key)
        slots = slots[slots >= 0]
    return slots[rows.passes(slots, where.condition)]


def select_rows(rows: TableRows, select: TableSelect) -> pa.Table:
    """The answer of a SELECT from a table."""
    slots = find_rows(rows, select.where)
    if select.fold is None:
        read = {name for output in select.outputs for name in output.expression.columns}
        columns = rows.read(slots, sorted(read) or rows.table.key[:1])
        values = [output.expression.evaluate(columns) for output in select.outputs]
        answer = pa.Table.from_arrays(values, names=[output.name for output in select.outputs])
    else:
        read = {name for name in select.fold.stream.schema.names if not name.startswith("#")}
        at = np.ones(len(slots), np.int64)
        answer = fold_pairs(select.fold, rows.read(slots, sorted(read)), at, np.array([1])).table
        answer = answer.select(answer.column_names[:-3])
    if select.order:
        ways = [(name, "descending" if descends else "ascending") for name, descends in select.order]
        answer = answer.take(pc.sort_indices(answer, sort_keys=ways))
    return answer if select.limit is None else answer.slice(0, select.limit)
