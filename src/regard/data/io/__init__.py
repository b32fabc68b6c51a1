"""Files: lines, tables, archives, whole-or-absent writing, where files are, caches, and ids in memory maps."""
