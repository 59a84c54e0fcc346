"""Figures of Arasu & Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", 2004, and one beside them."""
