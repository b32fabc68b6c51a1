"""Twins of what training does on a processor, forwards and backwards, by the native kernels."""
