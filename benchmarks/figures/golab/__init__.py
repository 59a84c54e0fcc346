"""Figures of Golab, Prahladka & Özsu: indexes over the results of sliding-window queries, on disk."""
