"""Text in one language in, text in another out."""
