"""What training, decoding and inspection ask of models, by what they read: text, images, speech, series."""
