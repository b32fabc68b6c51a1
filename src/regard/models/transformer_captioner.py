"""A Transformer that says what is on an image: locations in place of source words.

    logits = model(images, target)        images (B, 3, H, W), target (B, T) starting with <s>  →  (B, T, V)

The convolutions' locations go through one matrix and get a learned vector for their place; encoder blocks over them
may follow (`n_encoder_layers`, 0 for none). Decoder blocks then look at the words so far and at the locations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention, Rows, Sinusoidal
from regard.config.settings import setting
from regard.layers import Dropout, Embedding, FeedForward, LayerNorm, StackMaker
from regard.layers.decoder_stepper import DecoderStepper, StepEmbedding
from regard.layers.embeddings import VocabularyOutput, in_working_precision
from regard.models.entry import Entry
from regard.models.interfaces.captions import ImageEncoder, ImageEncoderConfig, captions_an_image


@dataclass(frozen=True, kw_only=True)
class TransformerCaptionerConfig(ImageEncoderConfig):
    """What makes one Transformer captioner differ from another; blocks are pre-norm."""

    d_model: int = setting(256, "width of the model", ge=1)
    n_heads: int = setting(4, "attention heads", ge=1)
    d_feedforward: int = setting(1024, "width inside the feed-forward parts", ge=1)
    n_encoder_layers: int = setting(2, "blocks over the locations", ge=0)
    n_decoder_layers: int = setting(3, "blocks of the decoder", ge=1)
    dropout: float = setting(0.2, "share of what the parts say that is dropped in training", ge=0, lt=1)
    feature_dropout: float = setting(0.1, "share of whole feature maps that is dropped", ge=0, lt=1)
    n_positions: int = setting(256, "most tokens of a caption", ge=1)
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


SIZES: dict[str, dict[str, object]] = {
    "tiny": {"widths": (16, 32, 48), "n_blocks": 1, "d_model": 64, "n_heads": 4, "d_feedforward": 128,
             "n_encoder_layers": 1, "n_decoder_layers": 2, "dropout": 0.0, "feature_dropout": 0.0},
    "small": {"widths": (32, 64, 128, 128), "n_blocks": 1, "d_model": 128, "n_heads": 4, "d_feedforward": 512,
              "n_encoder_layers": 1, "n_decoder_layers": 2},
    "base": {"widths": (64, 128, 256, 256), "n_blocks": 2, "d_model": 256, "n_heads": 4, "d_feedforward": 1024,
             "n_encoder_layers": 2, "n_decoder_layers": 3},
}  # fmt: skip


class TransformerCaptioner(VocabularyOutput):
    """Convolutions, encoder blocks over locations, decoder blocks over words."""

    def __init__(self, config: TransformerCaptionerConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        D = config.d_model
        self.encoder = ImageEncoder(config, dropout=config.feature_dropout)
        self.project = nn.Linear(self.encoder.d_output, D)
        self.places = Learned(D, n_positions=self.encoder.n_locations)
        blocks = StackMaker(
            d_model=D,
            attention=partial(MultiHeadAttention, D, config.n_heads),
            feedforward=partial(FeedForward, D, config.d_feedforward),
            norm=LayerNorm,
            dropout=config.dropout,
        )
        self.refine = blocks.encoder(config.n_encoder_layers)
        self.embedding = Embedding(config.n_target, D, scaled=True, pad_id=config.pad_id)
        self.output = self.output_bias = None
        self.positions = Sinusoidal(D, n_positions=config.n_positions)
        self.decoder = blocks.decoder(config.n_decoder_layers)
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Tensor, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next word, given the image and the words up to there."""
        return self.unembed(self.tell(self.encode(images), target))

    def encode(self, images: Tensor) -> Tensor:
        """The locations of images, as the decoder attends to them (B, S, D)."""
        locations = in_working_precision(self.places(self.project(self.encoder(images))))
        return self.refine(self.dropout(locations))

    def tell(self, locations: Tensor, target: Tensor | Rows) -> Tensor:
        """The decoder's last states, of K captions an image: (B · K, T, D)."""
        rows = Rows.of(target)
        memory = locations.repeat_interleave(captions_an_image(locations, rows), 0)
        self.positions.reserve(rows.longest)
        hidden = self.dropout(in_working_precision(self.positions(self.embedding(rows.ids))))
        return self.decoder(hidden, memory, mask=rows.causal_mask())

    def words(self, locations: Tensor) -> Tensor:
        """Scores (B, V) of the words that belong to the image."""
        return self.unembed(locations.mean(1))

    def start(self, images: Tensor, *, capacity: int = 64, watched: bool = False) -> DecoderStepper:
        """Encode images and stand ready to caption them, one row each; `watched` steps keep their attention."""
        return DecoderStepper(
            self.decoder,
            self.encode(images),
            embed=StepEmbedding(self.embedding, self.positions),
            unembed=self.embedding.unembed,
            capacity=capacity,
            watched=watched,
        )


ENTRY = Entry(TransformerCaptionerConfig, TransformerCaptioner, SIZES)
