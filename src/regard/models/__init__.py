"""Attention models, one file each: every one of them attends through `regard.attention`.

Nothing is imported here: a model is loaded when its own module is.
"""
