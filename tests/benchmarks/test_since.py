"""Results of a commit are compared with those of now, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import since
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.machine import git
from benchmarks.measure import RESULTS

RECORDS = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]


def record(rows: list[dict[str, Any]], peace: dict[str, Any] | None = None, cpu: str = "x") -> dict[str, Any]:
    columns = [{"key": "how", "label": "how", "format": ""}, {"key": "rules", "label": "rules", "format": ",d"},
               {"key": "rate", "label": "events per CPU s", "format": ",.0f"}]  # fmt: skip
    return {
        "name": "fraud_rules",
        "title": "Rules",
        "columns": columns,
        "rows": rows,
        "machine": {"cpu": cpu, "peace": peace},
    }


def test_each_benchmark_has_a_main_figure_which_its_result_has() -> None:
    assert set(BENCHMARKS) <= since.MAIN.keys()
    for each in RECORDS:
        key, _ = since.MAIN[each["name"]]
        column = next(column for column in each["columns"] if column["key"] == key)
        assert column["format"], f"{each['name']}: {key} is no number"
        assert since.compare(each, each, key, "more") is not None


@pytest.mark.parametrize("each", RECORDS, ids=lambda each: each["name"])
def test_a_result_is_as_good_as_itself(each: dict[str, Any]) -> None:
    key, better = since.MAIN[each["name"]]
    found = since.compare(each, each, key, better)
    assert found
    assert (found.ratio, found.then) == (1.0, found.now)


def test_rows_are_compared_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows only one is in both; one side was busy. Another result is new, and a third one has other rows."""
    then = record([{"how": "lanes", "rules": 10, "rate": 200.0}, {"how": "alone", "rules": 10, "rate": 7.0}])
    now = record([{"how": "lanes", "rules": 10, "rate": 300.0}, {"how": "lanes", "rules": 99, "rate": 9.0}],
                 {"disturbed": ["other processes use 1.40 cores"]})  # fmt: skip
    held = {"fraud_rules": then, "subscriptions": None, "ranges_per_key": record([], cpu="y")}
    for name in held:
        told = now | {"name": name, "title": name}
        (tmp_path / f"{name}.json").write_text(json.dumps(told))
    monkeypatch.setattr(since, "git", lambda *_: "found")
    monkeypatch.setattr(since, "earlier", lambda name, *_: held[name])
    assert since.since_text("v1", tmp_path).splitlines()[-3:] == [
        "| fraud_rules | events per CPU s (more is better) | 200 | 300 | 1.50 | 1 | not noted / busy |",
        "| ranges_per_key | events per CPU s (more is better) | other rows | – | – | 0 | "
        "not noted / busy, on another processor |",
        "| subscriptions | events per CPU s (more is better) | new | – | – | 0 | – / busy |",
    ]


def test_a_row_without_a_figure_and_rows_of_one_name_are_left_out() -> None:
    twice = [{"how": "a", "rules": 1, "rate": 2.0}, {"how": "a", "rules": 1, "rate": 4.0}]
    rows = [*twice, {"how": "b", "rules": 1, "rate": None}, {"how": "c", "rules": 1, "rate": 5.0}]
    assert since.compare(record(rows), record(rows), "rate", "less") == since.Compared(5.0, 5.0, 1.0, 1)


@pytest.mark.skipif(not git("rev-parse", "HEAD"), reason="no git here")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is new beside the commit that is checked out, unless measured since; an unknown commit is an error."""
    assert main(["--since", "HEAD"]) == 0
    printed = capsys.readouterr().out
    assert all(f"| {each['title']} |" in printed for each in RECORDS)
    assert "| not measured since |" in printed
    assert main(["--since", "no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err
