"""Compiled loops: arrays in, arrays out. No objects, no validation, no allocation of answers."""
