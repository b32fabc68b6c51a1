"""Rows of captured steps that decodings share: what each writes, and how far the device goes by itself."""
