"""Images in, their class out."""
