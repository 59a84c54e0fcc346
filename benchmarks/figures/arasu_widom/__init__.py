"""Figures 9, 10, 11 and one beside 12 of Arasu & Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", 2004."""
