"""`muntin run`: the same answers as the engine gives, whatever the formats."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from muntin import crew
from muntin.cli import app
from muntin.engine import event_file
from muntin.errors import MuntinError
from muntin.run.on_spark import explain_on_spark
from muntin.run.pipeline import BarProgress, PlainProgress
from muntin.run.script import parse_script
from muntin.run.standard import standard_streams
from muntin.stream import Stream
from tests.cli.conftest import EVENTS, SCRIPT

BATCH_ROWS = 3_000
QUERIES = ["busy", "query_1", "query_2"]


@pytest.fixture(scope="module")
def expected(trades) -> dict[str, pa.Table]:
    """What an engine emits when it is driven by hand, up to the watermark."""
    engine = parse_script(SCRIPT).start_engine()
    tables: dict[str, list[pa.Table]] = {name: [] for name in engine.queries}
    for batch in trades.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
        engine.push("trades", batch)
        for name, table in engine.advance().items():
            tables[name].append(table)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def run(muntin, script, input, out, *options):
    done = muntin("run", script, "--input", input, "--out", out, "--batch-rows", BATCH_ROWS, *options)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_same_answers_from_every_format(muntin, script, inputs, tmp_path, expected, format):
    out = tmp_path / "answers"
    done = run(muntin, script, inputs[format], f"{out}/", "--no-flush")
    assert sorted(path.name for path in out.iterdir()) == [f"{name}.parquet" for name in QUERIES]
    for name, table in expected.items():
        assert pa.parquet.read_table(out / f"{name}.parquet").equals(table), name
    assert f"{EVENTS:,} events (" in done.output
    assert " late" in done.output


def test_threads_change_no_answer(muntin, script, inputs, tmp_path, expected, monkeypatch):
    monkeypatch.setattr(crew, "FEW", 0)  # however small the work
    run(muntin, script, inputs["parquet"], f"{tmp_path}/answers/", "--no-flush", "--threads", 3)
    for name, table in expected.items():
        assert pa.parquet.read_table(tmp_path / "answers" / f"{name}.parquet").equals(table), name


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_standard_input_and_output(inputs, tmp_path, monkeypatch, capfdbinary, format):
    """Both in files with the suffixes of their formats; the latter is written out at the end."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(inputs[format]).read_bytes())))
    with standard_streams(["other=x.csv", "trades=-"], Path("-"), "jsonl") as ((other, given), out):
        path = Path(given.removeprefix("trades="))
        assert (other, path.suffix) == ("other=x.csv", f".{format}")
        assert path.read_bytes() == Path(inputs[format]).read_bytes()
        out.write_bytes(b'{"n": 1}\n')
    assert capfdbinary.readouterr().out == b'{"n": 1}\n'
    assert not path.exists()


def test_a_run_from_standard_input_to_standard_output(tmp_path):
    (tmp_path / "one.sql").write_text(
        "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts; "
        "SELECT SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]"
    )
    command = ["run", str(tmp_path / "one.sql"), "--input", "-", "--out", "-"]
    done = CliRunner().invoke(app, command, input=b"ts,n\n1,2\n2,3\n")
    assert json.loads(done.stdout)["n"] == 5
    assert "2 events, 1 answers of 1 query -> - in" in done.stderr


@pytest.mark.parametrize("given", ["ts,n\n1,2\n2,x\n", "ts,m\n1,2\n", '{"ts": 1, "n": "x"}\n'])
def test_errors_of_standard_input_name_it(tmp_path, given):
    (tmp_path / "one.sql").write_text(
        "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts; "
        "SELECT SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]"
    )
    command = ["run", str(tmp_path / "one.sql"), "--input", "-", "--out", str(tmp_path / "out.csv")]
    done = CliRunner().invoke(app, command, input=given)
    assert done.exit_code != 0
    assert "standard input" in done.output
    assert "stdin" not in done.output


def test_standard_input_is_read_once(muntin, script, tmp_path):
    done = muntin("run", script, "--input", "a=-", "--input", "b=-", "--out", tmp_path / "x.csv")
    assert done.exit_code != 0
    assert "standard input can be read once" in done.output


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_text_files_hold_the_typed_answers(muntin, script, inputs, tmp_path, expected, format):
    out = tmp_path / "answers"
    run(muntin, script, inputs["parquet"], out, "--no-flush", "--format", format)
    read = {"csv": pa.csv.read_csv, "jsonl": pa.json.read_json}[format]
    for name, table in expected.items():
        assert read(out / f"{name}.{format}").cast(table.schema, safe=False).equals(table), name


def test_one_query_in_one_file_is_typed(muntin, script, inputs, tmp_path, expected):
    script.write_text(SCRIPT.partition("SELECT COUNT(*)")[0])
    out = tmp_path / "busy.parquet"
    run(muntin, script, inputs["parquet"], out, "--no-flush")
    assert pa.parquet.read_table(out).equals(expected["busy"])


def test_several_queries_in_one_file_are_long(muntin, script, inputs, tmp_path, expected):
    out = tmp_path / "answers.parquet"
    run(muntin, script, inputs["parquet"], out, "--no-flush")
    long = pa.parquet.read_table(out)
    busy = long.filter((pc.field("query") == "busy") & (pc.field("column") == "volume"))
    assert [json.loads(key) for key in busy["key"].to_pylist()] == expected["busy"].select(
        ["symbol"]
    ).to_pylist()
    assert busy["value"].to_pylist() == expected["busy"]["volume"].to_pylist()
    assert busy["window_end"].equals(expected["busy"]["window_end"])
    latest = long.filter(pc.field("column") == "latest")
    assert latest["text"].to_pylist() == expected["query_1"]["latest"].to_pylist()
    assert latest["key"].null_count == latest["value"].null_count == len(latest)
    two = long.filter(pc.field("query") == "query_2")
    assert (
        json.loads(two["key"][0].as_py()) == expected["query_2"].select(["exchange", "side"]).to_pylist()[0]
    )


def test_flush_emits_every_window_that_holds_an_event(muntin, inputs, tmp_path, trades):
    script = tmp_path / "counts.sql"
    script.write_text(
        SCRIPT.partition(";")[0] + ";"
        "REGISTER QUERY short AS SELECT COUNT(*) AS n FROM trades [RANGE 1 SECOND SLIDE 1 SECOND];"
        "REGISTER QUERY long AS SELECT COUNT(*) AS n FROM trades [RANGE 60 SECONDS SLIDE 20 SECONDS];"
    )
    done = run(muntin, script, inputs["csv"], tmp_path / "flushed")
    counts = {
        name: pa.parquet.read_table(tmp_path / "flushed" / f"{name}.parquet") for name in ("short", "long")
    }
    late = int(done.output.split("(")[1].split(" late")[0].replace(",", ""))
    assert 0 < late < 100
    assert pc.sum(counts["short"]["n"]).as_py() == EVENTS - late  # tumbling: each event once
    assert pc.sum(counts["long"]["n"]).as_py() == 3 * (EVENTS - late)  # each event in three windows
    last = pc.max(trades["ts"]).as_py()
    for table in counts.values():
        assert table["n"][-1].as_py() > 0
        assert table["window_start"][-1].as_py() <= last  # and none after the last event


def test_no_flush_stops_at_the_watermark(muntin, script, inputs, tmp_path, expected):
    run(muntin, script, inputs["parquet"], tmp_path / "all")
    flushed = pa.parquet.read_table(tmp_path / "all" / "busy.parquet")
    assert flushed.slice(0, len(expected["busy"])).equals(expected["busy"])
    assert len(flushed) > len(expected["busy"])


def test_batches_do_not_change_answers_of_sliding_windows(muntin, script, inputs, tmp_path):
    tables = []
    for rows in (777, 100_000):
        out = tmp_path / str(rows)
        done = muntin("run", script, "--input", inputs["csv"], "--out", out, "--batch-rows", rows)
        assert done.exit_code == 0, done.output
        tables.append(pa.parquet.read_table(out / "busy.parquet"))
    assert tables[0].equals(tables[1])


def test_times_with_a_zone_are_read(muntin, tmp_path):
    (tmp_path / "zoned.csv").write_text("ts,v\n2024-01-02T10:00:00+01:00,1\n2024-01-02T10:00:30Z,2\n")
    script = tmp_path / "q.sql"
    script.write_text(
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts;"
        "SELECT SUM(v) AS total FROM s [ROWS 1 SLIDE 1]"
    )
    run(muntin, script, tmp_path / "zoned.csv", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [
        "1,2024-01-02 09:00:00.000000,2024-01-02 09:00:00.000001,true",
        "2,2024-01-02 10:00:30.000000,2024-01-02 10:00:30.000001,true",
    ]


def test_other_streams_are_left_out(muntin, script, inputs, tmp_path):
    script.write_text(
        SCRIPT + "CREATE STREAM quotes (ts TIMESTAMP) TIMESTAMP BY ts; SELECT COUNT(*) FROM quotes [ROWS 1];"
    )
    ambiguous = muntin("run", script, "--input", inputs["csv"], "--out", tmp_path / "out")
    assert ambiguous.exit_code == 2
    assert "--stream: trades, quotes" in ambiguous.output
    unknown = muntin("run", script, "--input", inputs["csv"], "--out", tmp_path / "out", "--stream", "trade")
    assert unknown.exit_code == 2
    assert "the script has no stream 'trade'; did you mean 'trades'?" in unknown.output
    done = run(muntin, script, inputs["csv"], tmp_path / "out", "--stream", "trades")
    assert "1 queries read other streams" in done.output


def test_notes_are_shown_as_they_are(capsys):
    """Beside a bar as without one: names in brackets, numbers and colons are not markup."""
    told = "query '[bold]q[/bold]' left out 12 rows :warning: [1]"
    out = io.StringIO()
    PlainProgress(out).note(told)
    bar = BarProgress()
    bar.show(1_000, 2, 0.5)
    bar.note(told)
    bar.close()
    assert out.getvalue().strip() == told
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\n", "", capsys.readouterr().err)
    assert told in shown


def test_a_long_table_has_answers_without_values(muntin, tmp_path):
    (tmp_path / "in.csv").write_text("ts,k\n1,a\n2,b\n3,a\n")
    script = tmp_path / "q.sql"
    script.write_text(
        "CREATE STREAM s (ts BIGINT, k VARCHAR) TIMESTAMP BY ts;"
        "SELECT DISTINCT k FROM s [RANGE 9 SECONDS]; SELECT COUNT(*) AS n FROM s [RANGE 9 SECONDS]"
    )
    run(muntin, script, tmp_path / "in.csv", tmp_path / "out.jsonl")
    rows = pa.json.read_json(tmp_path / "out.jsonl").to_pylist()
    last = [(row["query"], row["key"], row["column"], row["value"]) for row in rows][-3:]
    assert last == [
        ("query_1", '{"k": "a"}', None, None),
        ("query_1", '{"k": "b"}', None, None),
        ("query_2", None, "n", 3.0),
    ]


def test_two_streams_are_read_side_by_side(muntin, tmp_path):
    (tmp_path / "orders.csv").write_text(
        "ts,k,x\n" + "".join(f"{i * 10**6},{i % 3},{i}\n" for i in range(20))
    )
    (tmp_path / "bids.jsonl").write_text(
        "".join(json.dumps({"ts": i * 10**6, "k": i % 4, "y": -i}) + "\n" for i in range(0, 20, 2))
    )
    script = tmp_path / "q.sql"
    script.write_text(
        "CREATE STREAM orders (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts;"
        "CREATE STREAM bids (ts BIGINT, k BIGINT, y BIGINT) TIMESTAMP BY ts;"
        "REGISTER QUERY pairs AS SELECT k, x, y FROM orders [RANGE 5 SECONDS SLIDE 5 SECONDS] "
        "JOIN bids [RANGE 5 SECONDS] USING (k)"
    )
    given = ["--input", f"orders={tmp_path / 'orders.csv'}", "--input", f"bids={tmp_path / 'bids.jsonl'}"]
    done = muntin("run", script, *given, "--out", tmp_path / "out.csv", "--batch-rows", 3)
    assert done.exit_code == 0, done.output
    rows = pa.csv.read_csv(tmp_path / "out.csv").select(["k", "x", "y"]).to_pylist()
    wanted = [
        (x % 3, x, -y)
        for end in range(5, 25, 5)
        for x in range(end - 5, end)
        for y in range(end - 5, end)
        if y % 2 == 0 and x % 3 == y % 4
    ]
    assert sorted(tuple(row.values()) for row in rows) == sorted(wanted)
    assert "30 events" in done.output
    for bad, message in (
        (given[:2], "--input bids=FILE"),
        ([*given, "--input", given[1]], "two inputs are given for stream 'orders'"),
        ([*given[:3], "bids.jsonl"], "which stream is 'bids.jsonl'? write --input STREAM=FILE"),
    ):
        refused = muntin("run", script, *bad, "--out", tmp_path / "no.csv")
        assert refused.exit_code == 2
        assert message in refused.output
        assert not (tmp_path / "no.csv").exists()


def test_explain_prints_the_plan(muntin, script):
    done = muntin("explain", script)
    assert done.exit_code == 0
    assert "3 queries" in done.output
    assert done.output.strip() == parse_script(SCRIPT).start_engine().explain()


def test_changes_keep_their_column(muntin, tmp_path):
    """EMIT CHANGES says who enters and who leaves in a typed file, and in a long one."""
    (tmp_path / "e.csv").write_text("ts,k,n\n0,a,6\n1500000,b,9\n9000000,a,1\n")
    text = "SELECT k, SUM(n) AS v FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(n) > 5 EMIT CHANGES;"
    create = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts;"
    (tmp_path / "one.sql").write_text(f"{create} REGISTER QUERY one AS {text}")
    (tmp_path / "two.sql").write_text(f"{create} REGISTER QUERY one AS {text} REGISTER QUERY two AS {text}")
    expected = [("a", "enter"), ("b", "enter"), ("a", "leave"), ("b", "leave")]
    run(muntin, tmp_path / "one.sql", tmp_path / "e.csv", tmp_path / "one.parquet")
    typed = pa.parquet.read_table(tmp_path / "one.parquet")
    assert list(zip(typed["k"].to_pylist(), typed["change"].to_pylist(), strict=True)) == expected
    run(muntin, tmp_path / "two.sql", tmp_path / "e.csv", tmp_path / "two.parquet")
    long = pa.parquet.read_table(tmp_path / "two.parquet")
    of_one = long.filter((pc.field("query") == "one") & (pc.field("column") == "change"))
    assert of_one["text"].to_pylist() == [change for _, change in expected]


def test_derived_streams(muntin, tmp_path):
    """They have no input. At the end, queries go on until the windows with the last rows have closed; the query that
    these come from feeds them, but is given out only as far as its own windows hold an event."""
    (tmp_path / "e.csv").write_text("ts,n\n0,6\n1500000,9\n5000000,-1\n")
    (tmp_path / "q.sql").write_text(
        "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts;"
        "CREATE STREAM above AS SELECT ts, n FROM s WHERE n > 0;"
        "REGISTER QUERY two AS SELECT SUM(n) AS n FROM above [RANGE 2 SECONDS SLIDE 2 SECONDS];"
        "CREATE STREAM twos FROM QUERY two;"
        "REGISTER QUERY four AS SELECT SUM(n) AS n, COUNT(*) AS c FROM twos [RANGE 4 SECONDS SLIDE 2 SECONDS];"
    )
    run(muntin, tmp_path / "q.sql", tmp_path / "e.csv", tmp_path / "out")
    two, four = (pa.parquet.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("two", "four"))
    assert two["n"].to_pylist() == [15, None, None]
    assert four["n"].to_pylist() == [15, 15, None, None]
    assert four["c"].to_pylist() == [1, 2, 2, 2]
    done = muntin(
        "run", tmp_path / "q.sql", "--input", f"twos={tmp_path / 'e.csv'}", "--out", tmp_path / "o.csv"
    )
    assert "stream 'twos' has the closed windows of query 'two': it has no input" in " ".join(
        done.output.split()
    )
    with pytest.raises(MuntinError, match="on Spark each shard answers for its own keys"):
        explain_on_spark(tmp_path / "q.sql")


def test_arrow_files_and_folders(muntin, script, trades, tmp_path, expected):
    """A folder is one input: its files in the order of their names, whatever their formats."""
    folder = tmp_path / "days"
    folder.mkdir()
    pa.feather.write_feather(trades.slice(0, 7_000), str(folder / "1.feather"))
    with pa.ipc.new_stream(str(folder / "2.arrow"), trades.schema) as writer:
        writer.write_table(trades.slice(7_000, 5_500))
    pa.parquet.write_table(trades.slice(12_500), folder / "3.parquet")
    (folder / ".hidden").touch()
    out = tmp_path / "answers"
    run(muntin, script, folder, f"{out}/", "--no-flush")
    for name, table in expected.items():
        assert pa.parquet.read_table(out / f"{name}.parquet").equals(table), name


def test_queries_with_a_history(muntin, script, trades, tmp_path, expected):
    """Answers go on where the history ends."""
    half = 10_000
    pa.parquet.write_table(trades.slice(0, half), tmp_path / "past.parquet")
    pa.parquet.write_table(trades.slice(half), tmp_path / "now.parquet")
    text = SCRIPT.replace(
        "HAVING SUM(shares) > 20000;", f"HAVING SUM(shares) > 20000 BACKFILL '{tmp_path}/past.parquet';"
    )
    script.write_text(text)
    out = tmp_path / "answers"
    run(muntin, script, tmp_path / "now.parquet", f"{out}/", "--no-flush")
    found, whole = pa.parquet.read_table(out / "busy.parquet"), expected["busy"]
    seam = pc.max(trades.slice(0, half)["ts"])
    later = whole.filter(pc.greater(whole["window_end"], seam))
    compared = ["symbol", "volume", "high", "window_start", "window_end"]
    assert found.num_rows
    assert found.select(compared).sort_by(_ORDER).equals(later.select(compared).sort_by(_ORDER))
    assert "busy" in muntin("explain", script).output


_ORDER = [("window_end", "ascending"), ("symbol", "ascending")]


def test_answers_are_not_arrow_files(muntin, script, inputs, tmp_path):
    done = muntin("run", script, "--input", inputs["csv"], "--out", tmp_path / "answers.arrow")
    assert done.exit_code == 2
    assert "not written as Arrow files" in done.output


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".csv.gz", ".jsonl.gz"])
def test_text_files_are_read_block_by_block(suffix: str, tmp_path: Path, monkeypatch) -> None:
    """Arrow reads ahead: what has been read is known at any time, and a reader may be left before the end."""
    monkeypatch.setattr(event_file, "BLOCK_BYTES", 1_000)
    stream = Stream("s", pa.schema([("ts", pa.int64()), ("w", pa.string())]), "ts", 0)
    rows = [(at, f"word{at}") for at in range(2_000)]
    lines = [f"{at},{word}" if "csv" in suffix else f'{{"ts": {at}, "w": "{word}"}}' for at, word in rows]
    text = "\n".join((["ts,w"] if "csv" in suffix else []) + lines).encode()
    path = tmp_path / f"events{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    for _ in range(5):
        file = event_file.open_events(path, stream)
        next(file.batches(10))
        assert 0 < file.fraction <= 1
        assert [at for batch in file.batches(300) for at in batch["ts"].to_pylist()] == list(range(2_000))
        assert file.fraction == 1
