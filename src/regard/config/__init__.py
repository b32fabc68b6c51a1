"""Settings and recipes: typed sections with bounds and help, TOML files, overrides; which device and precision."""
