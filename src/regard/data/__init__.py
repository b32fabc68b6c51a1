"""From files to batches: `io` opens files, `text`, `images`, `audio` and `series` know what is in them.

`batching` says which examples go together, `synthetic` makes data to learn from in minutes. Nothing here knows a model.
"""
