"""What runs and models are, for people: summaries, lists, curves and cards."""
