"""Sources and sinks in the language: read with errors at the word, left out where nobody opens them."""

from __future__ import annotations

import pytest

from muntin import Engine, MuntinError, SqlError
from muntin.run.script import parse_script
from muntin.serve.options import SINKS, SOURCES, check_options, filled, read_options
from muntin.sql import CreateSink, CreateStream, DropSink, parse_statements
from muntin.sql.connections import without_connections
from muntin.sql.dialect import read_script
from muntin.sql.place import pointing_into
from muntin.sql.syntax import CreateSinkSyntax, CreateStreamSyntax
from tests.docs.markdown import ROOT

STREAM = "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND"
KAFKA = "source = 'kafka', brokers = 'localhost:9092', topic = 't'"


def test_statements() -> None:
    """WITH stands last in CREATE STREAM; a sink reads a query and has options of its own."""
    text = f"{STREAM} WITH ({KAFKA}, format = 'csv'); "
    text += "CREATE SINK a FROM q WITH (sink = 'files', path = 'x', bytes = 9); DROP SINK a"
    stream, sink, drop = parse_statements(text, {})
    assert isinstance(stream, CreateStream)
    assert stream.has_source
    assert (sink, drop) == (CreateSink("a", "q"), DropSink("a"))
    syntax = read_script(text)
    assert isinstance(syntax[0], CreateStreamSyntax)
    assert isinstance(syntax[1], CreateSinkSyntax)
    assert syntax[0].source
    read = filled(read_options(syntax[0].source, "source"), "source")
    assert (read["format"], read["bad"], read["topic"]) == ("csv", "fail", "t")
    assert filled(read_options(syntax[1].options, "sink"), "sink")["bytes"] == 9


@pytest.mark.parametrize(
    ("options", "word", "message"),
    [
        ("topic = 't'", "WITH", "the option 'source' is missing"),
        ("source = 'kafak'", "'kafak'", "there is no source 'kafak'"),
        ("source = 'kafka', brokers = 'b'", "'kafka'", "source 'kafka' needs the option 'topic'"),
        (f"{KAFKA}, formt = 'csv'", "formt", "has no option 'formt'; did you mean 'format'?"),
        (f"{KAFKA}, format = 'xml'", "'xml'", "option 'format' is 'json' or 'arrow' or 'csv'"),
        (f"{KAFKA}, bad = 'topic:'", "'topic:'", "option 'bad' is 'fail', 'skip' or 'topic:name'"),
        (f"{KAFKA}, topic = 'u'", "topic = 'u'", "option 'topic' stands here twice"),
        ("source = 'folder', path = 3", "3", "option 'path' is a text in quotes"),
        ("source = 'folder', path = -3", "-", "option 'path' is a text in quotes or a whole number"),
        ("source = 'http', url = 'x'", "url", "source 'http' has no option 'url'"),
        ("source 'http'", "'http'", "expected '=' after option 'source'"),
        ("", ")", "expected the name of an option, found"),
    ],
)
def test_wrong_options(options: str, word: str, message: str) -> None:
    """An error says what is wrong, and points at the word."""
    text = f"{STREAM} WITH ({options})"
    with pytest.raises(SqlError) as caught, pointing_into(text):
        check_options(read_script(text))
    assert message in caught.value.message
    assert caught.value.column == text.rindex(word) + 1


def test_engines_refuse_and_runs_leave_out() -> None:
    """An engine says who opens them. A run reads files instead, and errors still point at the right column."""
    text = f"{STREAM} WITH ({KAFKA}); REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]; "
    text += "CREATE SINK a FROM q WITH (sink = 'http', url = 'http://h/')"
    engine = Engine()
    for wrong in (text, "DROP SINK a"):
        with pytest.raises(MuntinError, match="sources and sinks are for muntin serve"):
            engine.execute(wrong)
    assert not engine.streams
    script = parse_script(text)
    assert (list(script.streams), list(script.queries)) == (["s"], ["q"])
    engine.execute(without_connections(text))
    with pytest.raises(SqlError) as caught:
        parse_script(text.replace("COUNT(*)", "COUNT(oops)"))
    assert caught.value.column == text.index("COUNT(*)") + len("COUNT(") + 1


def test_every_option_is_described() -> None:
    """In the page on serving, with its default, which passes its own check."""
    page = (ROOT / "docs/concepts/serving.md").read_text()
    for what, kinds in (("from", SOURCES), ("go", SINKS)):
        table = page.split(f"## Where {'events come from' if what == 'from' else 'answers go'}")[1].split(
            "\n## "
        )[0]
        for kind, options in kinds.items():
            assert f"| `{kind}` |" in table
            for each in options:
                assert f"`{each.name}`" in table, (kind, each.name)
                assert each.default is None or each.fault(each.default) is None
                assert each.default is None or str(each.default) in table
