"""Needs whose filter is a band: what they have in common, and where their bands end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muntin.arrays import Ints
from muntin.band import Band
from muntin.expression import Expression
from muntin.synopsis.need import Need

BandPlace = tuple[Expression, Expression | None]


def band_of(need: Need) -> Band | None:
    """The band that a need is filtered by, if its filter is one."""
    kept = need.input.filter
    return None if kept is None else kept.band


def place_of(need: Need) -> BandPlace:
    """What needs have in common that one range track serves: attribute and argument."""
    band = band_of(need)
    assert band is not None, "a range tree serves bands only"
    return band.attribute, need.input.argument


def ends_of(needs: Sequence[Need]) -> tuple[Ints, Ints]:
    """The low and high ends of the bands of needs."""
    bands = [band for need in needs if (band := band_of(need)) is not None]
    ends = np.array([(band.low, band.high) for band in bands], np.int64)
    return ends[:, 0].copy(), ends[:, 1].copy()
