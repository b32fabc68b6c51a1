"""Models behind HTTP: `regard serve`.

Read in this order: limits, joining, engine, served, errors, app, own, openai, chat, libretranslate, page.
"""
