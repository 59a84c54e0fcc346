"""How windows are answered from a store: one algorithm a file, named as in its paper."""
