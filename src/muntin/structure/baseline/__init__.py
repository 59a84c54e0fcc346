"""Structures that the papers compare theirs with.

A query gets one of them by a hint (`SYNOPSIS psoup`), and figures and benchmarks measure them beside ours. The plan
never chooses them by itself: its materialize_none is a scan of the store (`structure/track.py`).
"""
