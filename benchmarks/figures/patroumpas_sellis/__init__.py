"""Figures 10 to 12 of Patroumpas & Sellis, "Subsuming Multiple Sliding Windows for Shared Stream Computation"."""
