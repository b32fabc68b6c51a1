"""Recordings: files, manifests, resampling, log-mel spectrograms, and what training does to sound."""
