"""One stream at work, whatever drives it: a state of state, events in, answers out, state to bytes."""
