"""Figures whose x-axis is the number of queries, beside other systems."""
