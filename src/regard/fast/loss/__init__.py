"""The loss over a vocabulary without ever holding all scores: gradients computed along with it."""
