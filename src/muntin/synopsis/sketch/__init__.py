"""Sketches: synopses of fixed size whose answers are approximate, with the error as a promise."""
