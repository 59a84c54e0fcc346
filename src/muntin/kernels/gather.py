"""Gathering: rows of one array to places in another, without anything in between."""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def gather_rows(source, rows, places, out):
    """Copy `source[rows[i]]` to `out[places[i]]`; rows are wide, so each is one copy of its words."""
    words = source.shape[1]
    for number in range(len(rows)):
        row, place = rows[number], places[number]
        for word in range(words):
            out[place, word] = source[row, word]


@kernel
def gather_values(source, rows, places, out):
    """The same where a row is a single word."""
    for number in range(len(rows)):
        out[places[number]] = source[rows[number]]
