"""What `advance` gives out: the windows that are due, and the changes of their answers."""
