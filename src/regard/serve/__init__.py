"""Models behind HTTP: `regard serve`.

Read in this order: limits, tickets, joining, worker, engine, looking, served, errors, app, own, openai, chat, markup,
libretranslate, description, page, connections, server.
"""
