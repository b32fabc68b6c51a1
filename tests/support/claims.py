"""What each exhibit claims, as assertions over the figures it measured: true of what works, false of what is broken."""

from __future__ import annotations

from collections.abc import Mapping

Figures = Mapping[str, float]


def averaging(f: Figures) -> None:
    assert abs(f["profit at a bandwidth of 5,000"] - 187_500) < 10
    assert f["profit at a bandwidth of 16,447"] == 192_000
    assert abs(f["profit at a bandwidth of 100,000"] - f["profit by the plain mean"]) < 200
    assert [round(f[f"weight of {p} at 16,447"], 6) for p in ("60,000", "70,000", "85,000")] == [0.4, 0.4, 0.2]
    assert f["slide, x = 15: weight of 10"] == 0.5
    assert f["slide, x = 5: weight of 10"] > 0.999


def similarity(f: Figures) -> None:
    assert f["dot, equal lengths"] > 0.95
    assert f["dot, mixed lengths"] < 0.8 < 0.95 < f["Gaussian, mixed lengths"]
    assert f["scaled dot, mixed lengths"] == f["capped dot, mixed lengths"] == f["dot, mixed lengths"]
    for fixed in ("dot", "Gaussian"):
        assert f[f"{fixed}, a hidden turn"] < 0.15
    for learned in ("general", "additive", "MLP"):
        assert f[f"{learned}, a hidden turn"] > 0.85


def scaling(f: Figures) -> None:
    for d in (4, 64, 1024):
        assert abs(f[f"variance of qᵀk, d = {d}"] / d - 1) < 0.15
        assert abs(f[f"variance of qᵀk/√d, d = {d}"] - 1) < 0.15
        assert f[f"largest weight of qᵀk/√d, d = {d}"] < 0.2
        assert 0.2 < f[f"gradient of qᵀk/√d, d = {d}"] < 0.26
    assert f["largest weight of qᵀk, d = 1024"] > 0.9
    assert f["gradient of qᵀk, d = 1024"] < 0.3 * f["gradient of qᵀk, d = 4"]
    slide = [f[f"weight of score {score} over √64"] for score in (112, 96, 16, 8)]
    assert [round(weight, 3) for weight in slide] == [0.881, 0.119, 0.0, 0.0]


def order(f: Figures) -> None:
    change, right = "‖f(πx) − πf(x)‖ / ‖f(x)‖", "order told right"
    assert f[f"{change}, no positions"] < 1e-6
    assert f[f"{change}, sinusoidal"] > 0.1
    assert min(f[f"{change}, {way}"] for way in ("learned", "rotary", "ALiBi", "causal mask")) > 0.01
    assert abs(f[f"{right}, no positions"] - 0.5) < 0.06
    assert f[f"{right}, sinusoidal"] > 0.95


def shift(f: Figures) -> None:
    errors = [value for name, value in f.items() if name.startswith("largest error")]
    assert len(errors) == 5
    assert max(errors) < 1e-13
    assert f["largest difference between starts of P(t)·P(t + τ)"] < 1e-13
    assert f["largest entry of M(−7) M(7) − I"] < 1e-15
    assert min(value for name, value in f.items() if name.startswith("nearest two")) > 0.5


def bottleneck(f: Figures) -> None:
    assert f["letters right at length 2, without"] > 0.95
    assert f["letters right at length 9, without"] < 0.75
    assert f["letters right at length 9, with attention"] > 0.9


def crossing(f: Figures) -> None:
    assert f["words that look at their source"] > 0.85
    assert f["the same by going straight on"] < 0.65
    assert f["crossing pairs, of all pairs of links"] > 0.1


def context(f: Figures) -> None:
    assert f["“letter” translated right, 0 blocks"] == 0.5
    assert f["“letter” translated right, 2 blocks"] > 0.95
    assert f["cosine between meanings, embedding"] > 0.9999
    assert f["cosine within a meaning, block 2"] > 0.8 > 0.5 > f["cosine between meanings, block 2"]


def cheating(f: Figures) -> None:
    trained, alone = "loss on new sentences as trained (nats a word)", "loss when the future is not there"
    written = "correct sentences written"
    assert f[f"{trained}, without"] < 0.6 * f[f"{trained}, with the mask"]
    assert f[f"{alone}, without"] > 2 * f[f"{alone}, with the mask"]
    assert f[f"{written}, without"] < 0.05
    assert f[f"{written}, with the mask"] > 0.3


def blanks(f: Figures) -> None:
    assert f["number of the subject right, BERT"] > 0.8
    assert abs(f["number of the subject right, GPT"] - 0.5) < 0.12
    word = "probability of the word that stood there"
    assert f[f"{word}, BERT"] > 1.2 * f[f"{word}, GPT"]


def heads(f: Figures) -> None:
    apart = "distance between two heads"
    assert f[f"{apart}, before (bits)"] < 0.01
    assert f[f"{apart}, after (bits)"] > 0.05
    assert f["mean entropy, after (bits)"] < f["mean entropy, before (bits)"] - 0.1


def patches(f: Figures) -> None:
    area = f["share of the image that the thing covers"]
    assert f["told right"] > 0.8
    assert f["share of the attention on it, after"] > 1.7 * area
    assert f["share of the attention on it, after"] > 1.3 * f["share of the attention on it, before"]


def decoding(f: Figures) -> None:
    assert f["beam finds something likelier than greedy"] > 0.1
    assert f["beam finds something less likely"] == 0
    assert f["all three readings in the beam"] > 0.7


def vanishing(f: Figures) -> None:
    far = "kept from 1 to 64 back"
    assert f[f"{far}, RNN"] < 1e-10
    assert f[f"{far}, LSTM"] < 1e-6
    assert f[f"{far}, LSTM, gates opened"] > 1e-3
    assert 0.2 < f[f"{far}, Transformer"] < 5
    assert f["parameters of LSTM / RNN"] == 4


def parallel(f: Figures) -> None:
    assert f["chain at length 16, self-attention"] == f["chain at length 64, self-attention"]
    for kind in ("RNN", "LSTM"):
        assert f[f"chain at length 64, {kind}"] > 3.5 * f[f"chain at length 16, {kind}"]


def quadratic(f: Figures) -> None:
    growth = "growth of bytes when the length doubles"
    assert f[f"{growth}, fused"] == 2
    assert f[f"{growth}, written out"] > 3
    assert f["bytes kept at length 256, written out"] > 2 * f["bytes kept at length 256, fused"]
    assert f["largest difference between the two"] < 1e-5


def account(f: Figures) -> None:
    for size in ("base", "big"):
        assert abs(f[f"parameters, {size}"] / f[f"parameters, {size}, in the paper"] - 1) < 0.04
    assert f["formula / PyTorch's counter, forward pass"] == 1
    assert round(f["share of the paper's figure, base"], 2) == 0.29
    assert round(f["share of the paper's figure, big"], 2) == 0.42
