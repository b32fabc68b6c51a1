"""What the Transformer costs, against Table 2 of the paper that the lectures show.

Parameters are counted on models that hold no memory; operations by a formula, which is held against PyTorch's own
counter on a small model. The paper's figures are GPU time times an assumed speed, not a count.
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import watch
from regard.checkpoints.headers import count_of
from regard.exhibits.exhibit import Finding, Scale
from regard.inspection.plots.panels import Bars, Panel
from regard.models.flops import forward_flops, training_flops
from regard.models.registry import configure
from regard.models.transformer import Transformer

TABLE = {  # English–German, training FLOPs, as published
    "GNMT + RL": 2.3e19, "ConvS2S": 9.6e18, "MoE": 2.0e19, "GNMT + RL, ensemble": 1.8e20, "ConvS2S, ensemble": 7.7e19,
}  # fmt: skip
PAPER = {"base": (3.3e18, 65e6, 100_000), "big": (2.3e19, 213e6, 300_000)}  # FLOPs, parameters, steps
N_WORDS, BATCH = 37_000, 25_000  # the joint vocabulary, and the tokens of a batch on each side


def run(scale: Scale) -> Finding:
    """Count both sizes, and check the counting."""
    figures: dict[str, float] = {}
    for size, (published, parameters, steps) in PAPER.items():
        words = {"n_source": N_WORDS, "n_target": N_WORDS}
        config = configure("transformer", size, **words)
        total = training_flops(config, source_tokens=BATCH, target_tokens=BATCH, steps=steps).total
        figures |= {
            f"parameters, {size}": count_of("transformer", {"size": size, **words}),
            f"parameters, {size}, in the paper": parameters,
            f"training FLOPs, {size}": total,
            f"training FLOPs, {size}, in the paper": published,
            f"share of the paper's figure, {size}": total / published,
        }
    figures["formula / PyTorch's counter, forward pass"] = formula_against_counter(seed=scale.seed)
    parts = _parts()
    figures |= {f"share of {part}, base": share for part, share in parts.items()}
    return Finding(figures, _text(figures, parts), _panels(figures, parts), PICTURE, height=4.4)


def formula_against_counter(*, seed: int) -> float:
    """The formula's operations over those PyTorch counts in one forward pass of a small model."""
    torch.manual_seed(seed)
    config = configure("transformer", "tiny", n_source=100, n_target=100, dropout=0.0)
    model = Transformer(config).eval()
    source, target = torch.randint(1, 100, (4, 11)), torch.randint(1, 100, (4, 7))
    # The counter does not know the processor's fused kernel; watched through, attention is plain products.
    with FlopCounterMode(display=False) as counter, watch(model, through=True), torch.no_grad():
        model(source, target)
    counted = forward_flops(config, source_tokens=44, target_tokens=28, source_length=11, target_length=7)
    return counted.total / float(counter.get_total_flops())


def _parts() -> dict[str, float]:
    """Where the operations of base go, for sentences of 25 tokens."""
    config = configure("transformer", "base", n_source=N_WORDS, n_target=N_WORDS)
    flops = training_flops(config, source_tokens=BATCH, target_tokens=BATCH)
    return {name: getattr(flops, name) / flops.total for name in ("encoder", "decoder", "attention", "output")}


def _panels(figures: dict[str, float], parts: dict[str, float]) -> list[Panel]:
    ours = {f"Transformer {size}, counted": figures[f"training FLOPs, {size}"] for size in PAPER}
    theirs = {f"Transformer {size}": figures[f"training FLOPs, {size}, in the paper"] for size in PAPER}
    costs = dict(sorted((TABLE | theirs | ours).items(), key=lambda item: item[1]))
    labels = {"encoder": "encoder's matrices", "decoder": "decoder's matrices", "attention": "weights and values",
              "output": "output vocabulary"}  # fmt: skip
    shares = {labels[name]: 100 * share for name, share in parts.items()}
    return [
        Bars("Training cost, English–German", costs, "FLOPs (grey: as published)", list(ours), "{:.1e}", log=True,
             x_range=(3e17, 2e22)),
        Bars("Where the operations of base go", shares, "share (%)", ["weights and values"], "{:.0f} %",
             x_range=(0, 65)),
    ]  # fmt: skip


def _text(figures: dict[str, float], parts: dict[str, float]) -> str:
    million = {size: figures[f"parameters, {size}"] / 1e6 for size in PAPER}
    flops = {size: figures[f"training FLOPs, {size}"] for size in PAPER}
    share = {size: figures[f"share of the paper's figure, {size}"] for size in PAPER}
    return f"""
With the paper's vocabulary of 37,000 shared pieces the base model has {million["base"]:.1f} million parameters (65 in
the paper) and the big one {million["big"]:.1f} (213). Training took 100,000 and 300,000 steps of 25,000 tokens on each
side. Counted product by product, that is {flops["base"]:.1e} and {flops["big"]:.1e} operations,
{share["base"]:.0%} and {share["big"]:.0%} of Table 2's 3.3·10¹⁸ and 2.3·10¹⁹. The table's numbers are hours times GPUs
times the speed those are taken to sustain, so the share is how near the hardware came to it. By the table itself base
is cheaper than everything it was compared with, and big costs as much as GNMT + RL alone, more than ConvS2S and
MoE, and a third of an ensemble or less: "a fraction of the training cost" holds against the ensembles. The formula
gives {figures["formula / PyTorch's counter, forward pass"]:.4f} of what PyTorch's own counter finds in a small model.
Attention proper, the n² part, is
{parts["attention"]:.0%} of it for sentences of 25 tokens; the matrices are the cost.
"""


TITLE = "Parameters and operations"
CLAIM = "The models have the paper's size, and training them takes a third of the operations that its Table 2 states."
PICTURE = "The Transformer's bill: parameters and operations"
