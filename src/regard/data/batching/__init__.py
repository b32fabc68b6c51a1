"""Which examples go together in a batch: the same for the same seed, and resumable at any batch."""
