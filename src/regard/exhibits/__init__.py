"""The ideas of the lectures, each run and seen in a minute, through the code that does the real work.

One file an idea: what is claimed, what is measured, what is drawn. `gallery` lists them.
"""
