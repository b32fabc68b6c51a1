"""What figures are called by people, what they are measured in, and whether less is better.

    figure("valid_nll")     validation loss, nats, less is better
    figure("bleu")          BLEU, more is better

Names are those of run.json and of metrics.jsonl. One that is not known keeps its name; it is taken for a loss if it
says so, and else more of it is better.
"""

from __future__ import annotations

from dataclasses import dataclass

_LOSSES = ("loss", "nll", "error", "perplexity", "mse", "mae", "rmse", "wer", "cer", "ter", "pinball")


@dataclass(frozen=True)
class Figure:
    """A figure in words."""

    label: str
    unit: str = ""
    less_is_better: bool = False

    @property
    def axis(self) -> str:
        """As the name of an axis: what it is, in what."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


_KNOWN = {
    "loss": Figure("loss", "", True),
    "nll": Figure("loss", "nats", True),
    "valid_nll": Figure("validation loss", "nats", True),
    "valid_loss": Figure("validation loss", "", True),
    "perplexity": Figure("perplexity", "", True),
    "word_perplexity": Figure("perplexity a word", "", True),
    "bits_per_character": Figure("bits a character", "", True),
    "bits_per_byte": Figure("bits a byte", "", True),
    "bleu": Figure("BLEU"),
    **{f"bleu{mark}{n}": Figure(f"BLEU-{n}") for n in range(1, 5) for mark in ("", "-")},
    "chrf": Figure("chrF"),
    "ter": Figure("TER", "%", True),
    "wer": Figure("WER", "%", True),
    "cer": Figure("CER", "%", True),
    "cider": Figure("CIDEr-D"),
    "cider-d": Figure("CIDEr-D"),
    "exact": Figure("exact match"),
    "exact match": Figure("exact match", "share"),
    "accuracy": Figure("accuracy", "share"),
    "macro_f1": Figure("macro F1"),
    "macro f1": Figure("macro F1"),
    "f1": Figure("F1"),
    "matthews": Figure("Matthews", "correlation"),
    "pearson": Figure("Pearson", "correlation"),
    "spearman": Figure("Spearman", "correlation"),
    "mlm_accuracy": Figure("MLM accuracy", "share"),
    "mlm_loss": Figure("MLM loss", "nats", True),
    "nsp_accuracy": Figure("NSP accuracy", "share"),
    "nsp_loss": Figure("NSP loss", "nats", True),
    "mse": Figure("MSE", "scaled", True),
    "mae": Figure("MAE", "scaled", True),
    "rmse": Figure("RMSE", "", True),
    "pinball": Figure("pinball loss", "scaled", True),
    "coverage": Figure("coverage", "share"),
}


def is_mirrored(name: str) -> bool:
    """Whether a figure is a loss turned around: what a trainer makes large, and nobody reads."""
    return name.startswith("minus_") or name == "valid_log_likelihood"


def figure(name: str) -> Figure:
    """What a figure is called and how it is read; of one that is turned around, the figure itself."""
    plain = "valid_nll" if name == "valid_log_likelihood" else name.lower().removeprefix("minus_")
    known = _KNOWN.get(plain) or _KNOWN.get(plain.removeprefix("valid_"))
    if known is not None:
        return known
    words = plain.replace("_", " ").split()
    return Figure(name.replace("_", " "), "", bool(set(words) & set(_LOSSES)))
