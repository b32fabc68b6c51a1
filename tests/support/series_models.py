"""Every registered model of series, in every variant, so small that a test is over at once."""

SHAPE = {"context": 12, "horizon": 5, "n_inputs": 3, "targets": (0, 2), "n_marks": 4, "linear": False}
FROM_OTHERS = {"n_inputs": 2, "targets": (-1,)}
VARIANTS = {
    "patch-forecaster": {
        "plain": {},
        "layer": {"norm": "layer", "order": "pre"},
        "raw": {"normalize": False, "norm": "rms"},
        "quantiles": {"n_outputs": 3},
        "odd": {"patch": 5, "stride": 2},
        "linear": {"linear": True, "n_outputs": 3},
        "raw_linear": {"linear": True, "normalize": False},
    },
    "series-transformer": {
        "plain": {},
        "from_others": FROM_OTHERS,
        "dateless": {"n_marks": 0},
        "quantiles": {"n_outputs": 3, "normalize": False},
        "linear": {"linear": True},
        "linear_from_others": FROM_OTHERS | {"linear": True, "n_outputs": 3},
        "together": FROM_OTHERS | {"lead": 5},
    },
    "recurrent-forecaster": {
        "plain": {},
        "lstm": {"cell": "lstm", "n_layers": 2, "attention": "general"},
        "dot": {"attention": "dot", "n_marks": 0, "n_outputs": 3},
        "none": {"attention": "none", "cell": "rnn"},
        "from_others": FROM_OTHERS,
        "linear_from_others": FROM_OTHERS | {"linear": True},
        "together": FROM_OTHERS | {"lead": 5, "n_outputs": 3},
    },
    "dlinear": {"plain": {}, "normalized": {"normalize": True}, "quantiles": {"n_outputs": 3, "window": 5}},
}
TINY = {
    "patch-forecaster": {"patch": 4, "stride": 2, "d_model": 8, "n_heads": 2, "d_feedforward": 12, "n_layers": 2},
    "series-transformer": {"d_model": 8, "n_heads": 2, "d_feedforward": 12, "n_encoder_layers": 2},
    "recurrent-forecaster": {"d_hidden": 8},
    "dlinear": {"window": 3},
}
LINEAR = [(name, variant) for name, variants in VARIANTS.items() for variant in variants if "linear" in variant]
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]

ATTENTIVE = [(name, variant) for name, variant in CASES if name != "dlinear" and variant != "none"]


def options_of(name: str, variant: str, dropout: float = 0.0) -> dict:
    """All options of a variant."""
    dropping = {} if name == "dlinear" else {"dropout": dropout}
    return SHAPE | TINY[name] | dropping | VARIANTS[name][variant]
