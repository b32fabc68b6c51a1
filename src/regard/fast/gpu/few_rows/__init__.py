"""A language model's decoding steps for a row or two on a GPU, where launching a kernel takes as long as it does."""
