"""Bounds of Arasu & Manku, "Approximate Counts and Quantiles over Sliding Windows", 2004, which has no figures."""
