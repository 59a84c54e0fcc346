"""What notebooks show: the drawing, with thousands of queries in few boxes, and names that are anybody's."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from muntin import Engine

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts"


def boxes(svg: str) -> dict[str, list[str]]:
    """The texts of all boxes, by column."""
    found: dict[str, list[str]] = {"queries": [], "groups": [], "stores": []}
    for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        column = each.attrib["data-node"].partition("-")[0]
        found[column].append(" ".join("".join(part.itertext()) for part in each))
    return found


def test_an_empty_engine() -> None:
    engine = Engine()
    assert "There is nothing to share yet." in engine._repr_html_()
    engine.execute(STREAM)
    assert boxes(engine.sharing().svg()) == {"queries": [], "groups": [], "stores": []}


def test_queries_of_one_structure_are_one_bundle() -> None:
    engine = Engine()
    engine.execute(STREAM)
    text = "SELECT k, SUM(n) AS n FROM s [RANGE {} MINUTES SLIDE 1 MINUTE] GROUP BY k HAVING SUM(n) > {}"
    engine.register_many({f"rule_{number}": text.format(1 + number % 5, number) for number in range(300)})
    engine.register("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]", "alone")
    engine.push("s", {"ts": [0, 1], "k": ["a", "b"], "n": [1, 2]})
    found = boxes(engine.sharing().svg())
    assert len(found["queries"]) == len(found["groups"]) == len(found["stores"]) == 2
    assert any("300 queries" in each and "rule ×300" in each for each in found["queries"])
    assert any("alone" in each for each in found["queries"])
    share = engine.sharing().share("rule_7")
    assert share.shared_bytes == pytest.approx(300 * share.nbytes)


def test_many_filters_are_put_together() -> None:
    """Sixty filters have a store each; the drawing has one box for all of them, which says how many they are."""
    engine = Engine()
    engine.execute(STREAM)
    text = "SELECT k, SUM(n) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] WHERE n % {} = 0 GROUP BY k"
    engine.register_many({f"q{n}": text.format(n) for n in range(2, 62)})
    sharing = engine.sharing()
    assert len(sharing.stores) == 60
    found = boxes(sharing.svg())
    assert {column: len(some) for column, some in found.items()} == {"queries": 1, "groups": 1, "stores": 1}
    assert "slices ×60 " in found["stores"][0]
    assert "read by 60 queries" in found["stores"][0]


def test_no_more_boxes_than_fit() -> None:
    """Forty streams have stores that are not alike: the last box has what is left."""
    engine = Engine()
    for n in range(40):
        engine.execute(STREAM.replace(" s ", f" s{n} "))
        engine.register(
            f"SELECT k, SUM(n) AS n FROM s{n} [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k", f"q{n}"
        )
    found = boxes(engine.sharing().svg())
    assert {column: len(some) for column, some in found.items()} == {
        "queries": 10,
        "groups": 10,
        "stores": 10,
    }
    assert any("31 queries" in each for each in found["queries"])
    assert any("31 more stores" in each and "read by 31 queries" in each for each in found["stores"])


def test_names_are_text() -> None:
    engine = Engine()
    engine.execute(STREAM)
    evil = "<script>&\"' \x01"
    engine.register("SELECT SUM(n) AS n FROM s [RANGE 1 MINUTE]", evil)
    svg = engine.sharing().svg()
    assert "<script>" not in svg
    assert "<script>&\"'" in boxes(svg)["queries"][0]
    assert "<script>" not in engine.explain(evil)._repr_html_()


def test_a_plan_is_a_text_that_is_drawn() -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.register("SELECT SUM(n) AS n FROM s [RANGE 1 MINUTE]", "one")
    engine.register("SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k", "other")
    plan = engine.explain()
    assert isinstance(plan, str)
    assert f"{plan}".startswith("stream s")
    assert len(boxes(plan.sharing.svg())["queries"]) == 2 if plan.sharing else False
    alone = engine.explain("one")
    assert alone.sharing is not None
    assert "one shares with no other query" in alone._repr_html_()
    assert "other" not in boxes(alone.sharing.svg())["queries"][0]


def test_answers_are_tables() -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.register("SELECT k, SUM(n) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k", "<sums>")
    engine.push("s", {"ts": [0] * 20 + [3_000_000], "k": [f"<k{n}>" for n in range(21)], "n": [1] * 21})
    shown = engine.advance()._repr_html_()
    assert "&lt;sums&gt;" in shown
    assert "&lt;k0&gt;" in shown
    assert "<k" not in shown
    assert shown.count("<tr>") == 9  # a head and eight rows
    assert "12 more rows" in shown
    assert engine.advance()._repr_html_() == "<p>No window has closed.</p>"
