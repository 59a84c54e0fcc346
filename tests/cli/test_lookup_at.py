"""`muntin lookup-at`: the same answers as `muntin.lookup_at`, whatever the formats, and clear refusals."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import pytest

import muntin as package
from muntin.run.outputs import write_json_lines

CREATE = "CREATE STREAM payments (ts TIMESTAMP, account VARCHAR, shop BIGINT, amount BIGINT) TIMESTAMP BY ts"
QUERIES = {
    "hour": "SELECT account, SUM(amount) AS spent, COUNT(*) AS many FROM payments [RANGE 1 HOUR] GROUP BY account",
    "shop": "SELECT shop, MAX(amount) AS most FROM payments [ROWS 2] GROUP BY shop",
}
SCRIPT = f"{CREATE};\n" + "\n".join(f"REGISTER QUERY {name} AS {text};" for name, text in QUERIES.items())
MINUTE = 60_000_000
EVENTS = pa.table({
    "ts": pa.array([MINUTE * each for each in (0, 10, 30, 65, 80)], pa.timestamp("us")),
    "account": ["007", "b", "007", "b", "007"], "shop": [1, 2, 1, 2, 1], "amount": [10, 20, 30, 40, 50],
})  # fmt: skip
REQUESTS = pa.table({
    "label": ["x", None, "y, z", "w"], "account": ["007", "b", "007", "nobody"], "shop": [1, 1, 2, 3],
    "at": pa.array([MINUTE * each for each in (90, 20, 31, 70)], pa.timestamp("us")),
})  # fmt: skip


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    paths = {"script": tmp_path / "queries.sql", "history": tmp_path / "payments.parquet"}
    paths["script"].write_text(SCRIPT)
    pa.parquet.write_table(EVENTS, paths["history"])
    return paths


def expected(requests: pa.Table = REQUESTS) -> pa.Table:
    return package.lookup_at(EVENTS, QUERIES, requests, stream=CREATE)


def call(muntin, files, requests, out, *options):
    return muntin("lookup-at", files["script"], "--history", files["history"], "--requests", requests, "--out", out,
                  *options)  # fmt: skip


def write(table: pa.Table, path: Path) -> Path:
    match path.name.partition(".")[2]:
        case "parquet":
            pa.parquet.write_table(table, path)
        case "arrow":
            pa.feather.write_feather(table, str(path))
        case "ipc":
            with pa.ipc.new_stream(str(path), table.schema) as writer:
                writer.write_table(table)
        case "jsonl":
            with path.open("wb") as sink:
                write_json_lines(table, sink)
        case "csv.gz":
            with gzip.open(path, "wb") as sink:
                pa.csv.write_csv(table, sink)
        case _:
            pa.csv.write_csv(table, path)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "ipc", "csv", "csv.gz", "jsonl"])
def test_requests_of_every_format_get_the_same_answers(muntin, files, tmp_path, suffix):
    """Keys keep their types, columns beside them stay, and rows are in the order of the requests."""
    out = tmp_path / "answers.parquet"
    done = call(muntin, files, write(REQUESTS, tmp_path / f"requests.{suffix}"), out)
    assert done.exit_code == 0, done.output
    found = pa.parquet.read_table(out)
    assert found.select(expected().column_names).cast(expected().schema).equals(expected())
    assert found["hour.spent"].to_pylist() == [80, 20, 40, None]
    assert "4 requests to 2 queries over 5 events" in done.output


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_answers_as_text(muntin, files, tmp_path, suffix):
    out = tmp_path / "deep" / f"answers.{suffix}"
    done = call(muntin, files, write(REQUESTS, tmp_path / "requests.parquet"), out)
    assert done.exit_code == 0, done.output
    read = pa.csv.read_csv(out) if suffix == "csv" else pa.json.read_json(out)
    assert read["shop.most"].to_pylist() == expected()["shop.most"].to_pylist()
    assert read.column_names == expected().column_names


def test_the_column_of_instants_can_have_another_name(muntin, files, tmp_path):
    out, renamed = tmp_path / "answers.parquet", REQUESTS.rename_columns(["label", "account", "shop", "seen"])
    done = call(
        muntin, files, write(renamed, tmp_path / "requests.csv"), out, "--at", "seen", "--batch-rows", 2
    )
    assert done.exit_code == 0, done.output
    assert pa.parquet.read_table(out)["hour.many"].to_pylist() == expected()["hour.many"].to_pylist()


def test_requests_that_are_not_complete_are_counted(muntin, files, tmp_path):
    """A ROWS window that began before the history is complete; nothing else here is missing. No request, no row."""
    out = tmp_path / "answers.parquet"
    done = call(muntin, files, write(REQUESTS.slice(0, 0), tmp_path / "requests.parquet"), out)
    assert done.exit_code == 0, done.output
    assert pa.parquet.read_table(out).equals(expected(REQUESTS.slice(0, 0)))
    assert "0 requests to 2 queries" in done.output


@pytest.mark.parametrize(("requests", "out", "says"), [
    ("none.csv", "a.parquet", "there is no file of requests"),
    ("requests.txt", "a.parquet", "cannot tell the format"),
    ("requests.parquet", "a.csv.gz", "answers are not compressed by name"),
    ("requests.parquet", "folder", "would be a directory"),
    ("requests.parquet", "requests.parquet", "is a file that is read"),
    ("requests.jsonl", "a.parquet", "no column 'shop'"),
    ("broken.parquet", "a.parquet", "cannot read"),
])  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_written(muntin, files, tmp_path, requests, out, says):
    (tmp_path / "broken.parquet").write_text("not one")
    (tmp_path / "requests.txt").write_text("")
    write(REQUESTS, tmp_path / "requests.parquet")
    write(REQUESTS.drop_columns("shop"), tmp_path / "requests.jsonl")
    before = sorted(tmp_path.iterdir())
    done = call(muntin, files, tmp_path / requests, tmp_path / out)
    assert done.exit_code == 2
    assert says in done.output
    assert sorted(tmp_path.iterdir()) == before
    assert pa.parquet.read_table(tmp_path / "requests.parquet").equals(REQUESTS)


def test_queries_of_more_than_the_history_are_left_out_and_told(muntin, files, tmp_path):
    other = (
        "CREATE STREAM others (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts; SELECT COUNT(*) FROM others [ROWS 3];"
    )
    files["script"].write_text(SCRIPT + other)
    requests, out = write(REQUESTS, tmp_path / "requests.parquet"), tmp_path / "answers.parquet"
    assert "choose with --stream" in call(muntin, files, requests, out).output
    done = call(muntin, files, requests, out, "--stream", "payments")
    assert done.exit_code == 0, done.output
    assert "1 queries read more than 'payments' and are left out" in done.output
    assert pa.parquet.read_table(out).equals(expected())
