"""The components that aggregates are made of: one file each, with all its rules (`rules.py` says which there are)."""

from muntin.component.count import COUNT
from muntin.component.ends import FIRST, LAST
from muntin.component.extremes import MAX, MIN
from muntin.component.moments import M2
from muntin.component.pairs import ARG_MAX
from muntin.component.rules import Rules
from muntin.component.sum import SUM

RULES: tuple[Rules, ...] = (COUNT, SUM, MIN, MAX, FIRST, LAST, ARG_MAX, M2)

__all__ = ["RULES", "Rules"]
