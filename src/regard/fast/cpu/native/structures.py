"""What the kernels are told, field by field as in `kernels/*.h`: every field takes 8 bytes."""

from __future__ import annotations

import ctypes

SINGLE, BFLOAT, BYTES = 0, 1, 2  # what a layer's weights are kept in
ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3}
IN_BLOCKS = {"Q8_0": 3, "Q4_0": 4, "Q4_1": 5}
ADDRESS, COUNT, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


def _of(type_: type, names: str) -> list[tuple[str, type]]:
    return [(name, type_) for name in names.split()]


class Runtime(ctypes.Structure):
    """Functions of the OpenMP runtime that PyTorch uses, and how many threads to take."""

    _fields_ = [*_of(ADDRESS, "parallel n_threads"), ("wanted", COUNT)]


class Linear(ctypes.Structure):
    """A linear layer with packed weights."""

    _fields_ = [*_of(ADDRESS, "weights scales offsets bias"), *_of(COUNT, "n_in n_out kind activation positive")]


class Norm(ctypes.Structure):
    """A layer norm, or by the root of the mean square where it is not `centred`."""

    _fields_ = [*_of(ADDRESS, "weight bias"), ("epsilon", REAL), ("centred", COUNT)]


class DecoderBlock(ctypes.Structure):
    """The layers of a decoder block."""

    _fields_ = [*_of(Linear, "all own_out query cross_out inner outer"), ("norms", Norm * 3), ("pre", COUNT)]


class DecoderRows(ctypes.Structure):
    """Rows of a step that share their caches."""

    _fields_ = [
        *_of(ADDRESS, "keys values source_keys source_values own source_mask"),
        *_of(COUNT, "n_rows length capacity past_width n_source source_capacity source_width"),
    ]


class DecoderStep(ctypes.Structure):
    """One step of a whole decoder."""

    _fields_ = [
        *_of(ADDRESS, "blocks parts x"),
        *_of(COUNT, "n_blocks n_parts n_rows d_model n_heads n_groups d_head half"),
        ("scale", REAL),
    ]


class WalkRow(ctypes.Structure):
    """A greedy decoding of one row: its caches, its last token, and how likely that was.

    The rest is for one that goes on by itself (`walkers`).
    """

    _fields_ = [
        ("rows", DecoderRows),
        ("token", COUNT),
        ("log_prob", REAL),
        *_of(ADDRESS, "tokens log_probs"),
        *_of(COUNT, "n_written limit eos"),
        *_of(REAL, "first deadline"),
        *_of(COUNT, "leaves over"),
    ]


class WalkStep(ctypes.Structure):
    """One step of many of these, from tokens to tokens."""

    _fields_ = [
        ("step", DecoderStep),
        *_of(ADDRESS, "rows embedding positions output output_bias"),
        ("n_rows", COUNT),
        ("embedding_scale", REAL),
    ]


class WalkCounts(ctypes.Structure):
    """What decodings that go on by themselves have come to since they were last asked."""

    _fields_ = [*_of(COUNT, "n_tokens n_steps"), ("seconds", REAL)]


class Prefill(ctypes.Structure):
    """What a whole decoder keeps of the sentences it attends to."""

    _fields_ = [
        *_of(ADDRESS, "layers x starts rooms"),
        *_of(COUNT, "n_layers n_sentences n_groups d_head half"),
    ]


class LookBackRows(ctypes.Structure):
    """The past of the rows of one decoding."""

    _fields_ = [*_of(ADDRESS, "keys values"), *_of(COUNT, "first n_rows length capacity")]


class LookBack(ctypes.Structure):
    """One step of self-attention between its products."""

    _fields_ = [
        *_of(ADDRESS, "all seen parts"),
        *_of(COUNT, "n_parts n_heads n_groups d_head"),
        ("scale", REAL),
    ]


class CausalBlock(ctypes.Structure):
    """The layers of a block that looks back only."""

    _fields_ = [*_of(Linear, "all out inner outer"), ("norms", Norm * 2)]


class CausalRows(ctypes.Structure):
    """Rows of a step that share their caches."""

    _fields_ = [*_of(ADDRESS, "keys values starts"), *_of(COUNT, "n_rows length capacity")]


class CausalStep(ctypes.Structure):
    """One step of a whole stack that looks back only."""

    _fields_ = [
        *_of(ADDRESS, "blocks parts x cos sin last"),
        *_of(COUNT, "n_blocks n_parts n_rows d_model n_heads n_groups d_head half"),
        ("scale", REAL),
    ]


class EncoderBlock(ctypes.Structure):
    """The layers of an encoder block."""

    _fields_ = [*_of(Linear, "all out inner outer"), ("norms", Norm * 2), ("pre", COUNT)]


class EncoderRun(ctypes.Structure):
    """One pass through a whole encoder."""

    _fields_ = [
        *_of(ADDRESS, "blocks mask starts x"),
        *_of(COUNT, "n_blocks n_sentences d_model n_heads n_groups d_head"),
        ("scale", REAL),
    ]


class Product(ctypes.Structure):
    """A matrix product, with steps between rows and columns."""

    _fields_ = [
        *_of(ADDRESS, "a b c bias open"),
        *_of(COUNT, "m n k a_row a_inner b_inner b_column add relu"),
    ]


class Strided(ctypes.Structure):
    """Heads of tokens, with steps from token to token and from head to head."""

    _fields_ = [("data", ADDRESS), *_of(COUNT, "row head")]


class TrainedAttention(ctypes.Structure):
    """Attention of many sentences, or its gradients."""

    _fields_ = [
        *_of(Strided, "query key value output d_output d_query d_key d_value"),
        *_of(ADDRESS, "weights sentences"),
        *_of(COUNT, "n_sentences n_heads n_groups d_head causal half"),
        ("scale", REAL),
    ]


class Dropping(ctypes.Structure):
    """What is dropped: numbers whose draws are below the least."""

    _fields_ = [("draws", ADDRESS), ("least", COUNT), ("scale", REAL)]


class Residual(ctypes.Structure):
    """Rows, and what a part of a block made of them: dropped, added and normed; or the gradients of that."""

    _fields_ = [
        *_of(ADDRESS, "x part y sums scales weight bias d_y d_x d_part d_weight d_bias room"),
        *_of(COUNT, "n_rows d half"),
        ("epsilon", REAL),
        ("dropping", Dropping),
    ]
