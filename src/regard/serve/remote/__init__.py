"""Models in a process of their own: whoever speaks HTTP, and makes text of tokens, takes no time from a GPU."""
