"""Masked language models: hidden words guessed, texts as vectors."""
