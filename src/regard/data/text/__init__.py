"""Text to ids and back: documents, pairs, labelled texts, tokenizers, and encoded text on disk."""
