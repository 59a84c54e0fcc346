"""Several summaries become one: of windows, keys, shards or engines that share no event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muntin.argument import shown, text_of
from muntin.errors import MuntinError
from muntin.sketch.count_summary import ItemSummary
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.summary_text import QUANTILES, kind_of


def merge_summaries(texts: str | Iterable[str | None]) -> QuantileSummary | ItemSummary:
    """What APPROX_QUANTILE_SUMMARY or APPROX_COUNT_SUMMARY answered, of one or of several: their errors add up, so
    that the sum is within eps of all elements together, if each is within eps of its own. NULL is left out.

    With a delta the chances to fail add up as well.
    """
    many: Any = [texts] if isinstance(texts, str) else texts
    if isinstance(many, bytes) or not isinstance(many, Iterable):
        raise MuntinError(f"texts is a summary or a list of them, not {shown(texts)}")
    given = [text_of("each of texts", text) for text in many if text is not None]
    if not given:
        raise MuntinError("there is no summary to merge: give at least one")
    kind = kind_of(given[0])
    if kind == QUANTILES:
        return QuantileSummary.merge([QuantileSummary.from_text(text) for text in given])
    return ItemSummary.merge([ItemSummary.from_text(text) for text in given])
