"""A small file of trades in every format, and the command as a user would call it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from muntin.cli import app
from muntin.run.outputs import AnswerFile
from muntin.testing import TradeStream

STREAM = TradeStream(seed=11, symbols=40, rate=500.0, late=0.001)
EVENTS = 20_000

SCRIPT = f"""\
{STREAM.create_statement};
REGISTER QUERY busy AS
  SELECT symbol, SUM(shares) AS volume, MAX(price) AS high FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY symbol HAVING SUM(shares) > 20000;
SELECT COUNT(*) AS trades, LAST(symbol) AS latest FROM trades [ROWS 1000 SLIDE 500];
SELECT exchange, side, AVG(price) AS price FROM trades [RANGE 3 SECONDS] GROUP BY exchange, side;
"""


@pytest.fixture(scope="session")
def trades() -> pa.Table:
    return STREAM.table(EVENTS)


@pytest.fixture(scope="session")
def inputs(trades, tmp_path_factory) -> dict[str, Path]:
    """The same events as Parquet, CSV and JSON lines."""
    directory = tmp_path_factory.mktemp("inputs")
    paths = {format: directory / f"trades.{format}" for format in ("parquet", "csv", "jsonl")}
    for format, path in paths.items():
        file = AnswerFile(path, trades.schema, format)
        file.write(trades)
        file.commit()
    return paths


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "queries.sql"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def muntin():
    """Call the command: `muntin("run", …)`; paths are turned into text."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call
