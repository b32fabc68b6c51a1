"""Every registered captioner, in every variant, so small that a test is over at once."""

SHAPE = {"n_target": 13, "image_size": 20, "widths": (4, 6, 8), "n_blocks": 1, "feature_dropout": 0.0}
VARIANTS = {
    "captioner": {
        "additive": {},
        "none": {"attention": "none"},
        "group": {"norm": "group", "attention": "general"},
        "dot": {"attention": "dot"},
        "dot_one_width": {"attention": "dot", "d_hidden": 8},
        "scaled_dot": {"attention": "scaled_dot"},
        "general": {"attention": "general", "tied": False},
        "mlp": {"attention": "mlp", "widths": (4, 6, 8, 10), "n_blocks": 2},
    },
    "transformer-captioner": {
        "plain": {},
        "no_encoder": {"n_encoder_layers": 0},
        "one_layer": {"n_decoder_layers": 1, "n_heads": 1, "widths": (16, 32, 20)},
    },
}
TINY = {
    "captioner": {"d_embedding": 10, "d_hidden": 12},
    "transformer-captioner": {
        "d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 2,
    },
}  # fmt: skip
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
ATTENTIVE = [(name, variant) for name, variant in CASES if variant != "none"]


def options_of(name: str, variant: str, dropout: float = 0.0) -> dict:
    """All options of a variant."""
    return SHAPE | TINY[name] | {"dropout": dropout} | VARIANTS[name][variant]
