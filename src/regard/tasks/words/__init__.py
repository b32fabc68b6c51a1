"""Word vectors: which words are alike."""
