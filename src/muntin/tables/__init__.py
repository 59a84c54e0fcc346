"""Tables at work: their rows as arrays, which keys find and changes replace."""
