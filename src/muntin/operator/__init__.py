"""One stream at work, whatever drives it: a shard of state, events in, answers out, state to bytes."""
