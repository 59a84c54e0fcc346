"""The code on the pages runs, and the SQL on them is accepted."""

from __future__ import annotations

import pytest

import muntin
from muntin.testing import TradeStream
from registry import books_restored
from tests.docs.markdown import ROOT, blocks, is_shown, pages

README = ROOT / "README.md"
WITH_PYTHON = [page for page in pages() if any(blocks(page, "python"))]
ON_SPARK = [page for page in WITH_PYTHON if "import muntin.spark" in page.read_text()]
SQL_BLOCKS = [block for page in pages() for block in blocks(page, "sql")]


@pytest.mark.parametrize(
    "page",
    [page for page in WITH_PYTHON if page not in ON_SPARK],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_blocks_run_in_order_and_print_what_is_shown(page, tmp_path, monkeypatch, capsys):
    """A block of text is all that the code above it prints, and whatever is printed stands on the page."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = place = ""
    with books_restored():
        for block in blocks(page, "python", "text"):
            if block.language == "text":
                assert is_shown(block.text, printed), f"{block.place} is not all that is printed:\n{printed}"
                printed = ""
                continue
            assert not printed, f"{place} prints what the page does not show:\n{printed}"
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            printed, place = capsys.readouterr().out, block.place
    assert not printed, f"{place} prints what the page does not show:\n{printed}"


@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_on_spark_run_in_order(page, spark, tmp_path, monkeypatch, capsys):
    """`local_session()` finds the session of the tests: another Java would take ten seconds of a core."""
    test_python_blocks_run_in_order_and_print_what_is_shown(page, tmp_path, monkeypatch, capsys)


def test_the_readme_engine_takes_the_readme_queries():
    names: dict[str, object] = {}
    for block in blocks(README, "python"):
        if "muntin.spark" not in block.text:
            exec(block.text, names)
    engine = names["engine"]
    assert isinstance(engine, muntin.Engine)
    assert engine.lookup("busy").num_rows > 0
    for block in blocks(README, "sql"):
        engine.execute(block.text)
    for name in ("downward_momentum", "volatility_surge"):
        assert engine.lookup(name).column_names[0] == "symbol"


@pytest.mark.parametrize("block", SQL_BLOCKS, ids=lambda block: block.place)
def test_sql_blocks_are_accepted(block, tmp_path):
    engine = muntin.Engine(archive=tmp_path)
    if "CREATE STREAM" not in block.text:
        engine.execute(TradeStream().create_statement)
    engine.execute(block.text)
