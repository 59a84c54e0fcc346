"""Errors: one clear message on stderr, exit code 2, nothing left behind."""

from __future__ import annotations

import pytest

from tests.cli.conftest import SCRIPT


@pytest.fixture
def fails(muntin, script, inputs, tmp_path):
    """Run with some arguments replaced; returns the message of the expected failure."""

    def call(**changed) -> str:
        arguments = {
            "script": script,
            "input": inputs["csv"],
            "out": tmp_path / "out" / "answers.csv",
        } | changed
        before = set(tmp_path.rglob("*"))
        done = muntin("run", arguments["script"], "--input", arguments["input"], "--out", arguments["out"])
        assert done.exit_code == 2, done.output
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert set(tmp_path.rglob("*")) == before, "something was left behind"
        return done.stderr

    return call


def test_missing_files(fails, tmp_path):
    assert "no input file" in fails(input=tmp_path / "none.csv")
    assert "no script" in fails(script=tmp_path / "none.sql")


def test_unknown_suffixes(fails, tmp_path, inputs):
    assert ".parquet, .csv" in fails(out=tmp_path / "answers.txt")
    strange = tmp_path / "trades.xlsx"
    strange.touch()
    assert "trades.xlsx" in fails(input=strange)
    assert "not compressed" in fails(out=tmp_path / "answers.csv.gz")


def test_sql_error_has_a_caret(fails, script):
    script.write_text(SCRIPT.replace("SUM(shares) AS", "SUM(sharez) AS"))
    message = fails()
    assert "did you mean 'shares'?" in message
    assert "SELECT symbol, SUM(sharez) AS volume" in message
    assert message.splitlines()[-1].strip() == "^^^^^^"


def test_missing_column_is_named(fails, tmp_path):
    for name, text in [
        ("bad.csv", "ts,symbol,exchange,side,prize,shares\n2024-01-02,A,B,ask,1.0,2\n"),
        (
            "bad.jsonl",
            '{"ts":"2024-01-02","symbol":"A","exchange":"B","side":"ask","prize":1.0,"shares":2}\n',
        ),
    ]:
        (tmp_path / name).write_text(text)
        assert "no column 'price'; did you mean 'prize'?" in fails(input=tmp_path / name)


def test_wrong_type_is_named(fails, tmp_path):
    bad = tmp_path / "bad.csv"
    good = "2024-01-02,A,B,ask,1.0,2\n"
    bad.write_text("ts,symbol,exchange,side,price,shares\n" + good * 3 + "2024-01-02,A,B,ask,1.0,many\n")
    message = fails(input=bad)
    assert "bad.csv" in message
    assert "many" in message


def test_null_time(fails, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("ts,symbol,exchange,side,price,shares\n,A,B,ask,1.0,2\n")
    assert "NULL" in fails(input=bad)


def test_broken_files(fails, tmp_path):
    for name, content in [("a.parquet", b"PAR1 not really"), ("a.csv", b""), ("a.jsonl", b'{"ts": ')]:
        (tmp_path / name).write_bytes(content)
        assert name in fails(input=tmp_path / name)


def test_script_that_does_more_than_declare(fails, script):
    script.write_text(SCRIPT + "DROP QUERY busy;")
    assert "DROP QUERY busy" in fails()
    script.write_text(SCRIPT + "REGISTER QUERY busy AS SELECT COUNT(*) FROM trades [ROWS 1];")
    assert "two queries of the script are called 'busy'" in fails()
    script.write_text(SCRIPT.partition(";")[0])
    assert "no query" in fails()


def test_an_existing_file_survives_a_failure(fails, tmp_path):
    kept = tmp_path / "kept.csv"
    kept.write_text("as it was")
    bad = tmp_path / "bad.csv"
    bad.write_text("ts,symbol,exchange,side,price,shares\nnonsense,A,B,ask,1.0,2\n")
    fails(input=bad, out=kept)
    assert kept.read_text() == "as it was"


def test_explain_errors(muntin, tmp_path):
    done = muntin("explain", tmp_path / "none.sql")
    assert done.exit_code == 2
    assert "no script" in done.stderr


def test_an_input_for_an_unknown_stream(fails, inputs):
    assert "no stream 'trade'; did you mean 'trades'?" in fails(input=f"trade={inputs['csv']}")


def test_a_script_without_a_query(fails, script):
    script.write_text(SCRIPT.split(";")[0] + ";")
    assert "the script has no query: add REGISTER QUERY" in fails()
