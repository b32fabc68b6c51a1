"""Images: files, archives, arrays and tables of them, decoded once into a store; changes to pixels."""
