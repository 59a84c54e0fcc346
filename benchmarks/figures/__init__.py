"""Figures of the papers, drawn again from our own measurements: one folder per paper, one file per figure."""
