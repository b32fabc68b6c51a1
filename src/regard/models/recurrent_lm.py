"""A recurrent language model: what a Transformer's blocks do in a GPT, one layer of long short-term memory does here.

    logits = model(ids)                     (B, T) → (B, T, V), position t about token t + 1
    stepper = model.start(prompts)          the same, one token at a time, with the state kept

    embedding → dropout → recurrent layers → projection to the embeddings' width → dropout → output, tied

Size `gpt1` is what Radford et al. (2018, Table 5) put in the place of their Transformer: a single layer of 2048 units.
Rows are padded, not packed: a state would run on from one document into the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.config.settings import Settings, setting
from regard.errors import ShapeError
from regard.layers import Dropout, Embedding, Recurrent, RecurrentName
from regard.layers.embeddings import VocabularyOutput
from regard.layers.recurrent import recurrent_rows
from regard.models.entry import Entry


@dataclass(frozen=True, kw_only=True)
class RecurrentLMConfig(Settings):
    """What makes one recurrent language model differ from another."""

    n_tokens: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    cell: RecurrentName = setting("lstm", "the recurrent cell")
    d_model: int = setting(384, "width of the model", ge=1)
    d_hidden: int = setting(1024, "width of the recurrent state", ge=1)
    n_layers: int = setting(1, "layers", ge=1)
    n_positions: int = setting(256, "tokens that it learns on", ge=1)
    dropout: float = setting(0.2, "share of what the parts say that is dropped in training", ge=0, lt=1)
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_model": 128, "d_hidden": 256},
    "small": {"d_model": 384, "d_hidden": 1024},
    "gpt1": {"d_model": 768, "d_hidden": 2048, "n_positions": 512},
}


class RecurrentLM(VocabularyOutput):
    """Embeddings, recurrent layers that read forward, and an output over the vocabulary."""

    def __init__(self, config: RecurrentLMConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        D = config.d_model
        self.embedding = Embedding(config.n_tokens, D, std=0.05)
        self.layers = Recurrent(
            config.cell, D, d_hidden=config.d_hidden, n_layers=config.n_layers, dropout=config.dropout
        )
        self.projection = nn.Linear(config.d_hidden, D)
        self.output = self.output_bias = None
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next token."""
        return self.unembed(self.hidden(ids))

    def hidden(self, ids: Tensor | Rows) -> Tensor:
        """The projected states (B, T, D), for losses that do the output themselves."""
        # Padding comes after what is real, and who reads forward has not seen it there.
        return self.project(self.layers(self.embed(recurrent_rows(ids).ids)).outputs)

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The same, for heads on top; each has seen the tokens up to its own. `segments` tell it nothing."""
        return self.hidden(ids)

    def embed(self, ids: Tensor) -> Tensor:
        """Ids (B, T) → vectors (B, T, D)."""
        return self.dropout(self.embedding(ids))

    def project(self, states: Tensor) -> Tensor:
        """States (B, T, d_hidden) → (B, T, D)."""
        return self.dropout(self.projection(states))

    def start(self, prompts: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> RecurrentLMStepper:
        """Read the prompts (N, P) but for the last token of each, which is the first to `step` with.

        Prompts may differ in length. A state does not grow, so `capacity` is nothing to it; nor is there to `watch`.
        """
        return RecurrentLMStepper(self, recurrent_rows(prompts))


class RecurrentLMStepper:
    """A recurrent language model in the middle of writing N rows."""

    def __init__(self, model: RecurrentLM, prompts: Rows) -> None:
        self.model = model
        N, P = prompts.ids.shape
        lengths = torch.full((N,), P, device=self.device) if prompts.lengths is None else prompts.lengths
        if int(lengths.min()) < 1 or int(lengths.max()) > P:
            raise ShapeError(
                f"the prompts' lengths are {int(lengths.min())} to {int(lengths.max())}; allowed are 1 to {P}",
                hint="an empty prompt is the token that begins a text",
            )
        config, layers = model.config, model.layers
        self.state = model.projection.weight.new_zeros(layers.n_parts, config.n_layers, N, config.d_hidden)
        self._read(prompts.ids, lengths - 1)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.embedding.weight.device

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        recurred = self.model.layers(self.model.embed(tokens[:, None]), state=self.state)
        self.state = recurred.state
        return self.model.unembed(self.model.project(recurred.outputs)[:, 0])

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.state = self.state.index_select(2, rows)

    def attention(self) -> Tensor | None:
        """There is none."""
        return None

    @torch.no_grad()
    def _read(self, ids: Tensor, lengths: Tensor) -> None:
        """The state after so many tokens of each row; of rows of one token, their first step is all there is."""
        busy = (lengths > 0).nonzero()[:, 0]
        if len(busy):
            read = self.model.layers(self.model.embed(ids[busy, : int(lengths.max())]), lengths=lengths[busy])
            self.state = self.state.to(read.state.dtype).index_copy(2, busy, read.state)


ENTRY = Entry(RecurrentLMConfig, RecurrentLM, SIZES, head={"pooling": "last"}, continues=True)
