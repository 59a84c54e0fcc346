"""Which keys pass a threshold: indexes over the windows of all keys, so that not every key is visited."""
