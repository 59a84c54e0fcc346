"""What is kept of a stream: events, slices of folded events, matches of joins; each kept once for all that read it."""
