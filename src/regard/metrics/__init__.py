"""Losses and figures that several tasks share: cross-entropy, R-Drop, BLEU and others by name, bootstrap."""
