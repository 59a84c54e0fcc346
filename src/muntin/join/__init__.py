"""Joins of two streams at work: matches that queries share, and answers of them."""
