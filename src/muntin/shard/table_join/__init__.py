"""A stream joined with tables: which rows its keys meet, what they answer, and who enters and leaves."""
