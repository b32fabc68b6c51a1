"""Recordings in, what is said in them out, with times."""
