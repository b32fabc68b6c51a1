"""Models and tokenizers that others trained: their files in, ours out, and back."""
