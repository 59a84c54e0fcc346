"""Materialised views at work: what follows the streams, brings results to an archive, and answers from it."""
