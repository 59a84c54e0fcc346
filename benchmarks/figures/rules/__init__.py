"""Figures of rules that differ in their filters, beside other libraries."""
