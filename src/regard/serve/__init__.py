"""Models behind HTTP: `regard serve`.

Read in this order: limits, joining, engine, packing, drawing, served, errors, app, own, openai, chat, libretranslate,
description, page.
"""
