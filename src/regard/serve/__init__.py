"""Models behind HTTP: `regard serve`.

Read in this order: limits, joining, engine, looking, served, errors, app, own, openai, chat, markup, libretranslate,
description, page, connections, server.
"""
