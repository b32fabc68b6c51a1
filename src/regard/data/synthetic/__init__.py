"""Data to learn from in minutes, without a download: dates, coloured shapes, strings of spoken digits."""
