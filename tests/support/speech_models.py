"""Every registered model of speech, in every variant, so small that a test is over at once."""

from regard.models import speech_transformer

N_MELS, N_TARGET = 5, 13
WHISPER = speech_transformer.WHISPER_OPTIONS | {"n_places": 12, "n_positions": 8}
VARIANTS = {
    "speech-transformer": {
        "plain": {},
        "ctc": {"ctc": True},
        "post": {"order": "post", "activation": "relu"},
        "strides": {"strides": (2,), "decoder_positions": "learned", "n_positions": 8},
        "whisper": WHISPER,
    },
    "las": {
        "plain": {},
        "ctc": {"ctc": True, "attention": "general"},
        "dot": {"attention": "dot", "n_speller_layers": 2},
        "scaled_dot": {"attention": "scaled_dot", "cell": "gru"},
        "mlp": {"attention": "mlp", "cell": "rnn", "n_halvings": 0},
        "deep": {"n_halvings": 3},
    },
}
TINY = {
    "speech-transformer": {
        "d_model": 16,
        "n_heads": 4,
        "d_feedforward": 24,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
    },
    "las": {"d_listener": 6, "d_speller": 8, "d_embedding": 7, "n_halvings": 2},
}
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]


def options_of(name: str, variant: str, dropout: float = 0.0) -> dict:
    """All options of a variant."""
    shape = {"n_mels": N_MELS, "n_target": N_TARGET}
    return {**shape, **TINY[name], **VARIANTS[name][variant], "dropout": dropout}
