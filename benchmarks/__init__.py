"""Benchmarks: what muntin costs, measured and checked. `python -m benchmarks --list` names them."""
