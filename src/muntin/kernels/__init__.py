"""Compiled loops: arrays in, arrays out. No objects, no validation, no allocation of answers."""

# What happens while kernels are compiled. Not imported by a kernel's file: that would be part of what compiled code
# is kept by.
from muntin.kernels.collector import RESTING as RESTING
from muntin.kernels.told import COMPILING as COMPILING
