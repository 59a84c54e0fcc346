"""Figures 9 to 12 of Arasu & Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", 2004."""
