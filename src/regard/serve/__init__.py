"""Models behind HTTP: `regard serve`.

<<<<<<< HEAD
Read in this order: limits, joining, engine, packing, drawing, served, errors, app, own, openai, chat, libretranslate,
description, page.
=======
Read in this order: limits, joining, engine, looking, served, errors, app, own, openai, chat, markup, libretranslate,
description, connections, server.
>>>>>>> robust
"""
