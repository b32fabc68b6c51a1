"""Questions on passages in, a piece of the passage out."""
