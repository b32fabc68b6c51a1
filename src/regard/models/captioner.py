"""Show, Attend and Tell (Xu et al., 2015): a recurrent decoder that looks at another part of the image for each word.

    logits = model(images, target)        images (B, 3, H, W), target (B, T) starting with <s>  →  (B, T, V)

    s₀, c₀   made of the mean of the locations aⱼ
    zₜ       βₜ Σⱼ wₜⱼ aⱼ,  w = softmax(score(sₜ₋₁, aⱼ)),  βₜ = σ(W_β sₜ₋₁): how much the image matters to this word
    sₜ, cₜ   LSTM([E yₜ₋₁; zₜ], (sₜ₋₁, cₜ₋₁))
    yₜ       softmax(E W[E yₜ₋₁; sₜ; zₜ])

Each location also holds a learned vector for its place, without which left and right would look alike to the attention.
With `attention="none"` the mean of the locations stands where the weighted sum stood, and all else is the same model:
what is left out is the choice of where to look. The score may be any; for dot and scaled_dot, which compare equal
widths, the locations are brought to `d_hidden` first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Cache, Learned, Rows
from regard.config.settings import setting
from regard.layers import Dropout, Embedding
from regard.layers.embeddings import VocabularyOutput, in_working_precision
from regard.layers.state_attention import ONE_WIDTH, AttentionName, StateAttention, StateStepper, score_of
from regard.models.entry import Entry
from regard.models.interfaces.captions import ImageEncoder, ImageEncoderConfig, captions_an_image


@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionerConfig(ImageEncoderConfig):
    """What makes one recurrent captioner differ from another."""

    d_embedding: int = setting(512, "width of the embeddings", ge=1)
    d_hidden: int = setting(512, "width of the recurrent state", ge=1)
    attention: AttentionName = setting(
        "additive", "the score that attention compares by; none: the mean of the locations"
    )
    dropout: float = setting(0.5, "share dropped of words and before the output", ge=0, lt=1)
    feature_dropout: float = setting(0.1, "share of whole feature maps that is dropped", ge=0, lt=1)
    tied: bool = setting(True, "the embeddings are the output's matrix")
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


SIZES: dict[str, dict[str, object]] = {
    "tiny": {"widths": (16, 32, 48), "n_blocks": 1, "d_embedding": 64, "d_hidden": 96, "dropout": 0.0,
             "feature_dropout": 0.0},
    "small": {"widths": (32, 64, 128, 128), "n_blocks": 1, "d_embedding": 256, "d_hidden": 256, "dropout": 0.3},
    "base": {"widths": (64, 128, 256, 256), "n_blocks": 2, "d_embedding": 512, "d_hidden": 512, "dropout": 0.5},
}  # fmt: skip


class RecurrentCaptioner(VocabularyOutput):
    """Convolutions, a recurrent decoder, and attention between them or the mean in its place."""

    def __init__(self, config: RecurrentCaptionerConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        E, D = config.d_embedding, config.d_hidden
        self.encoder = ImageEncoder(config, dropout=config.feature_dropout)
        C = self.encoder.d_output
        self.reduce = nn.Linear(C, D) if config.attention in ONE_WIDTH and C != D else None
        C = D if self.reduce is not None else C
        self.attention = self.places = None
        if config.attention != "none":
            self.places = Learned(C, n_positions=self.encoder.n_locations)
            self.attention = StateAttention(score_of(config.attention, D, d_key=C))
        self.embedding = Embedding(config.n_target, E, scaled=True, pad_id=config.pad_id)
        self.gist = nn.Linear(C, E)
        self.first_state = nn.Linear(E, 2 * D)
        self.gate = nn.Linear(D, 1)
        self.cell = nn.LSTMCell(E + C, D)
        self.combine = nn.Linear(E + D + C, E)
        self.output = None if config.tied else nn.Linear(E, config.n_target, bias=False)
        self.output_bias = None
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Tensor, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next word, given the image and the words up to there."""
        return self.unembed(self.tell(self.encode(images), target))

    def encode(self, images: Tensor) -> Tensor:
        """The locations of images, as the decoder attends to them (B, S, C)."""
        locations: Tensor = self.encoder(images)
        if self.reduce is not None:
            locations = self.reduce(locations)
        return locations if self.places is None else in_working_precision(self.places(locations))

    def tell(self, locations: Tensor, target: Tensor | Rows) -> Tensor:
        """What the output is computed of, of K captions an image: (B · K, T, d_embedding)."""
        rows = Rows.of(target)
        progress = self.begin(locations, captions_an_image(locations, rows))
        embedded = self.dropout(self.embedding(rows.ids))
        steps = [self.advance(word, progress) for word in embedded.unbind(1)]
        return self._finish(torch.cat((embedded, torch.stack(steps, 1)), -1))

    def words(self, locations: Tensor) -> Tensor:
        """Scores (B, V) of the words that belong to the image."""
        return self.unembed(self.gist(locations.mean(1)))

    def start(self, images: Tensor, *, capacity: int = 64, watched: bool = False) -> StateStepper[Progress]:
        """Encode images and stand ready to caption them, one row each; `watched` steps keep their attention.

        The state does not grow with the caption, so `capacity` reserves nothing here.
        """
        device, attention = self.embedding.weight.device, self.attention if watched else None
        return StateStepper(self.step, self.begin(self.encode(images)), device=device, watched=attention)

    def begin(self, locations: Tensor, per_image: int = 1) -> Progress:
        """Where the decoder stands before its first word, for so many captions an image."""
        mean = locations.mean(1)
        state = torch.tanh(self.first_state(self.gist(mean))).chunk(2, -1)
        hidden, memory = (part.repeat_interleave(per_image, 0) for part in state)
        keys = None if self.attention is None else self.attention.prefill(locations)
        return Progress(hidden, memory, mean, keys)

    def advance(self, word: Tensor, progress: Progress) -> Tensor:
        """An embedded word a row (N, d_embedding) → state and context (N, D + C); progress moves on."""
        context = self._look(progress) * torch.sigmoid(self.gate(progress.hidden))
        inputs = torch.cat((word, context), -1)
        progress.hidden, progress.memory = self.cell(inputs, (progress.hidden, progress.memory))
        return torch.cat((progress.hidden, context), -1)

    def step(self, tokens: Tensor, progress: Progress) -> Tensor:
        """One token a row (N,) → the logits of the next (N, V); progress moves on."""
        word = self.embedding(tokens)
        return self.unembed(self._finish(torch.cat((word, self.advance(word, progress)), -1)))

    def _look(self, progress: Progress) -> Tensor:
        """What each row sees of its image (N, C)."""
        n_images, n_rows = len(progress.mean), len(progress.hidden)
        if self.attention is None or progress.keys is None:
            return progress.mean.repeat_interleave(n_rows // n_images, 0)
        # The captions of one image ask together, as several queries of one row, so its keys are there once.
        asked = progress.hidden.view(n_images, n_rows // n_images, -1)
        seen: Tensor = self.attention(asked, mask=None, cache=progress.keys)
        return seen.flatten(0, 1)

    def _finish(self, parts: Tensor) -> Tensor:
        """Word, state and context side by side → what the output is computed of."""
        return self.dropout(self.combine(parts))


@dataclass
class Progress:
    """Where a decoder stands: state and cell (N, D), and of the images the mean (B, C), keys and values."""

    hidden: Tensor
    memory: Tensor
    mean: Tensor
    keys: Cache | None

    def reorder(self, rows: Tensor, *, same_source: bool) -> None:
        """Rows change places; `same_source` says that each stays with its own image, whose keys then can stay."""
        self.hidden, self.memory = self.hidden.index_select(0, rows), self.memory.index_select(0, rows)
        if not same_source:
            self.mean = self.mean.index_select(0, rows)
            if self.keys is not None:
                self.keys.reorder(rows)


ENTRY = Entry(RecurrentCaptionerConfig, RecurrentCaptioner, SIZES)
