"""Figures 9, 10 and 11 of Arasu & Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", 2004."""
