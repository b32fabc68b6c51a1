"""Images in, what is on them out, in words."""
