"""See what a model looked at."""
