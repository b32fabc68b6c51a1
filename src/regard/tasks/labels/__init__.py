"""Texts or pairs of texts in, a class or a number out."""
