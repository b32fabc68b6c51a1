"""The ideas of the lectures, each run and seen in a minute, through the code that does the real work.

One file an idea: its TITLE, what it CLAIMs, how it is `run`, and what its PICTURE is called. `gallery` lists them.
"""
