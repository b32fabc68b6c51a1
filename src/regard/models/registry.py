"""The models that have a name, and how options become one of them. The list is closed: no paths, no imports by name.

    configure("transformer", "base", n_source=37000, n_target=37000)     a config, checked
    build("recurrent", {"size": "small", "n_source": 8000, "n_target": 8000, "attention": "additive"})     a model

Values are brought to the types that the config declares ("512" is a number, 1 is a float where one is due). Whatever
is wrong with the options is said at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from regard.config.schema import nearest, typed
from regard.errors import ConfigError
from regard.models import (
    bert,
    captioner,
    dlinear,
    gpt,
    patch_forecaster,
    recurrent_encoder,
    recurrent_forecaster,
    recurrent_lm,
    series_transformer,
    transformer,
    vit,
)
from regard.models import las as speech_las
from regard.models import recurrent as seq2seq
from regard.models import speech_transformer as speech
from regard.models import transformer_captioner as captioner_transformer
from regard.models.bert import Bert, BertConfig
from regard.models.captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from regard.models.classifier import Classifier, ClassifierConfig, SpanReader, SpanReaderConfig
from regard.models.dlinear import DLinear, DLinearConfig
from regard.models.gpt import GPT, GPTConfig
from regard.models.las import LASConfig, ListenAttendSpell
from regard.models.patch_forecaster import PatchForecaster, PatchForecasterConfig
from regard.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from regard.models.recurrent_encoder import RecurrentEncoder, RecurrentEncoderConfig
from regard.models.recurrent_forecaster import RecurrentForecaster, RecurrentForecasterConfig
from regard.models.recurrent_lm import RecurrentLM, RecurrentLMConfig
from regard.models.series_transformer import SeriesTransformer, SeriesTransformerConfig
from regard.models.speech_transformer import SpeechTransformer, SpeechTransformerConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.transformer_captioner import TransformerCaptioner, TransformerCaptionerConfig
from regard.models.vit import ViT, ViTConfig
from regard.models.word_vectors import WordVectors, WordVectorsConfig


@dataclass(frozen=True)
class Entry:
    """A registered model: its config, the module that is made of one, and the options its named sizes stand for."""

    config: type[Any]
    model: Callable[[Any], nn.Module]
    sizes: Mapping[str, Mapping[str, Any]]

    @property
    def options(self) -> tuple[str, ...]:
        """What can be set."""
        return tuple(field.name for field in fields(self.config))


MODELS: Mapping[str, Entry] = {
    "transformer": Entry(TransformerConfig, Transformer, transformer.SIZES),
    "recurrent": Entry(RecurrentConfig, RecurrentSeq2Seq, seq2seq.SIZES),
    "bert": Entry(BertConfig, Bert, bert.SIZES),
    "recurrent-encoder": Entry(RecurrentEncoderConfig, RecurrentEncoder, recurrent_encoder.SIZES),
    "classifier": Entry(ClassifierConfig, Classifier, {}),
    "span-reader": Entry(SpanReaderConfig, SpanReader, {}),
    "gpt": Entry(GPTConfig, GPT, gpt.SIZES),
    "recurrent-lm": Entry(RecurrentLMConfig, RecurrentLM, recurrent_lm.SIZES),
    "word-vectors": Entry(WordVectorsConfig, WordVectors, {}),
    "patch-forecaster": Entry(PatchForecasterConfig, PatchForecaster, patch_forecaster.SIZES),
    "series-transformer": Entry(SeriesTransformerConfig, SeriesTransformer, series_transformer.SIZES),
    "recurrent-forecaster": Entry(RecurrentForecasterConfig, RecurrentForecaster, recurrent_forecaster.SIZES),
    "dlinear": Entry(DLinearConfig, DLinear, dlinear.SIZES),
    "vit": Entry(ViTConfig, ViT, vit.SIZES),
    "speech-transformer": Entry(SpeechTransformerConfig, SpeechTransformer, speech.SIZES),
    "las": Entry(LASConfig, ListenAttendSpell, speech_las.SIZES),
    "captioner": Entry(RecurrentCaptionerConfig, RecurrentCaptioner, captioner.SIZES),
    "transformer-captioner": Entry(TransformerCaptionerConfig, TransformerCaptioner, captioner_transformer.SIZES),
}


def entry(name: str) -> Entry:
    """The model of that name."""
    _refuse_unknown("model", [name], MODELS)
    return MODELS[name]


def configure(name: str, /, size: str | None = None, **overrides: Any) -> Any:
    """The config of a model: its defaults, changed by a named size, changed by the overrides."""
    chosen = entry(name)
    if size is not None:
        _refuse_unknown(f"size of {name}", [size], chosen.sizes)
    _refuse_unknown(f"option of {name}", overrides, chosen.options)
    return typed(chosen.config, {**(chosen.sizes[size] if size else {}), **overrides}, where=name)


def build(name: str, options: Mapping[str, Any]) -> nn.Module:
    """A new model from its options: the fields of its config, and `size` for a named starting point."""
    rest = {option: value for option, value in options.items() if option != "size"}
    return entry(name).model(configure(name, options.get("size"), **rest))


def _refuse_unknown(what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    unknown = [name for name in given if name not in allowed]
    if not unknown:
        return
    near = [best for name in unknown if (best := nearest(name, allowed))]
    hint = f"did you mean {', '.join(near)}?" if near else None
    names = ", ".join(repr(name) for name in unknown)
    raise ConfigError(f"no {what} is called {names}; there are {', '.join(allowed) or 'none'}", hint=hint)
