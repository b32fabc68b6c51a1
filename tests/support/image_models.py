"""Every registered model of images, in every variant, so small that a test is over at once."""

SHAPE = {"image": (9, 14), "n_classes": 5, "patch": 4, "d_model": 8, "n_heads": 2, "d_feedforward": 12, "n_layers": 2}
CONV = {"stem": "conv", "stem_layers": 3, "stem_width": 6}
VARIANTS = {
    "vit": {
        "plain": {},
        "mean": {"pooling": "mean", "positions": "sinusoidal"},
        "attention": {"pooling": "attention", "positions": "none", "bias": False},
        "conv": CONV | {"pooling": "attention"},
        "conv_class": CONV | {"positions": "sinusoidal", "activation": "gelu_tanh"},
        "headless": {"n_classes": 0, "pooler": True},
        "grey": {"n_channels": 1, "pooler": True, "skip": 0.3},
    },
}
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]


def options_of(name: str, variant: str, dropout: float = 0.0) -> dict:
    """All options of a variant."""
    return SHAPE | {"dropout": dropout} | VARIANTS[name][variant]
