"""What came from outside looks as its shape says, or is refused with the place where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.described import Absent, Between, Each, Maybe, Misshapen, check_shape

SHAPE = {
    "count": Between(0, 10),
    "first": Maybe(Between(-5, 5)),
    "names": [str],
    "pair": (str, Between(0, 3)),
    "by_name": Each({"rate": float}),
    "later": Absent(bool),
}
GOOD: dict[str, Any] = {
    "count": 0,
    "first": None,
    "names": [],
    "pair": ["a", 3],
    "by_name": {"x": {"rate": 0.5}, "y": {"rate": 2}},
}


@pytest.mark.parametrize(
    "more",
    [{}, {"count": 10}, {"first": -5}, {"first": 5}, {"names": ["a", ""]}, {"later": False}, {"by_name": {}},
     {"unknown": object()}],
)  # fmt: skip
def test_what_fits(more: dict[str, Any]) -> None:
    check_shape(GOOD | more, SHAPE, "it")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"count": -1}, "it.count is -1, which does not lie between 0 and 10"),
        ({"count": 11}, "it.count is 11, which does not lie between 0 and 10"),
        ({"count": 1.0}, "it.count is no whole number"),
        ({"count": True}, "it.count is no whole number"),
        ({"count": None}, "it.count is no whole number"),
        ({"first": 6}, "it.first is 6, which does not lie between -5 and 5"),
        ({"first": "1"}, "it.first is no whole number"),
        ({"names": "ab"}, "it.names is no list, but 'ab'"),
        ({"names": ["a", 1]}, "it.names[1] is no str, but 1"),
        ({"pair": ["a"]}, "it.pair has 1 elements instead of 2"),
        ({"pair": ["a", 1, 2]}, "it.pair has 3 elements instead of 2"),
        ({"pair": [1, 1]}, "it.pair[0] is no str, but 1"),
        ({"pair": {"a": 1}}, "it.pair is no list, but {'a': 1}"),
        ({"by_name": []}, "it.by_name is no dict, but []"),
        ({"by_name": {"x": {"rate": "fast"}}}, "it.by_name.x.rate is no number"),
        ({"by_name": {"x": {"rate": float("inf")}}}, "it.by_name.x.rate is no number"),
        ({"by_name": {"x": {"rate": True}}}, "it.by_name.x.rate is no number"),
        ({"by_name": {"x": {}}}, "it.by_name.x has no 'rate'"),
        ({"later": 1}, "it.later is no bool, but 1"),
    ],
)
def test_what_does_not_fit(more: dict[str, Any], said: str) -> None:
    with pytest.raises(Misshapen) as refused:
        check_shape(GOOD | more, SHAPE, "it")
    assert str(refused.value) == said


@pytest.mark.parametrize("name", [name for name in SHAPE if name != "later"])
def test_a_field_that_is_missing(name: str) -> None:
    with pytest.raises(Misshapen, match=f"it has no '{name}'"):
        check_shape({each: value for each, value in GOOD.items() if each != name}, SHAPE, "it")
