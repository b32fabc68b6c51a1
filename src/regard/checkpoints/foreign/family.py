"""What each family of foreign models says about itself, so that one reader and one writer serve them all.

    recognise(config, names)     their config.json and the names in the weight file → which model of ours that is
    names(model)                 how their weights are called, in both directions
    config(model)                → their config.json, or None where the family cannot express the model
    stored, generation           what else they keep: tensors that ours compute, and how to decode

`ModelSpec` is our side of it: the task, the model's name in the registry, and its options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from regard.checkpoints.foreign.names import NameMap
from regard.checkpoints.headers import outline
from regard.checkpoints.spec import ModelSpec, check_depth, check_memory, with_defaults
from regard.checkpoints.weights import weights_of
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, UsageError

Template = Literal["bare", "cls-sep", "eos"]
Shapes = Mapping[str, tuple[int, ...]]


class TheirConfig(dict[str, Any]):
    """A config.json: `config["hidden_size"]` says so when it is missing, `config.get("eps", 1e-12)` has a default."""

    def __init__(self, values: Mapping[str, Any], *, origin: str) -> None:
        super().__init__(values)
        self.origin = origin

    def __missing__(self, key: str) -> Any:
        raise CheckpointError(f"{self.origin}: {key} is missing", hint="is it the config of these weights?")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say of the file what goes wrong while its values are taken for what they should be."""
        try:
            yield
        except UsageError as problem:  # the numbers in it make no model
            raise CheckpointError(f"{self.origin}: {problem}", hint=problem.hint) from problem
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as problem:
            raise CheckpointError(
                f"{self.origin}: a value is not what it has to be ({type(problem).__name__}: {problem})",
                hint="the file may be damaged; fetch it again",
            ) from problem

    def choose(self, key: str, known: Mapping[Any, Any], *, default: Any = None) -> Any:
        """What we call the value of a key; a value that no option of ours stands for is an error."""
        value = self.get(key, default)
        if not isinstance(value, Hashable) or value not in known:
            allowed = ", ".join(repr(name) for name in known)
            raise CheckpointError(f"{self.origin}: {key} is {value!r}, which regard does not have; it has {allowed}")
        return known[value]

    def architecture(self, *known: str) -> str:
        """Which of the known architectures it is for; the first where it does not say."""
        given = (self.get("architectures") or known)[0]
        if given not in known:
            raise CheckpointError(f"{self.origin}: architecture {given!r} is not known; there are {', '.join(known)}")
        return str(given)

    def refuse_others(self, harmless: Mapping[str, Collection[Any]]) -> None:
        """Refuse keys that ask for something that our gpt does not have; absent keys ask for nothing."""
        asked = {key: values for key, values in harmless.items() if key in self and self[key] not in values}
        if asked:
            wrong = ", ".join(f"{key} = {self[key]!r}" for key in asked)
            raise CheckpointError(f"{self.origin}: regard's gpt does not have {wrong}")


@dataclass(frozen=True)
class Family:
    """A family of foreign models, known by the `model_type` in its config.json.

    `stored` are tensors that ours compute and theirs keep; `generation` is what their generation_config.json says.
    `template` is what is put around a text, where its tokenizer does not say; None: it reads no text.
    """

    model_type: str
    recognise: Callable[[TheirConfig, Collection[str]], ModelSpec]
    names: Callable[[ModelSpec], NameMap]
    config: Callable[[ModelSpec], dict[str, Any] | None]
    stored: Callable[[ModelSpec], dict[str, Tensor]] = lambda model: {}
    generation: Callable[[ModelSpec, Tokenizer], dict[str, Any]] | None = None
    template: Template | None = "bare"

    def understand(self, config: TheirConfig, names: Collection[str]) -> tuple[ModelSpec, Shapes]:
        """Which model of ours a config describes, with all its options, and the shapes of its weights.

        `names` are those of the weights beside it. A config that makes no model, or one that cannot be theirs, is
        refused before anything is built.
        """
        with config.reading():
            spec = with_defaults(self.recognise(config, names))
        return spec, understood(spec, names, origin=config.origin)


def understood(spec: ModelSpec, names: Collection[str], *, origin: str) -> Shapes:
    """The shapes of the weights of a model that others describe, by our names, if it can be built at all."""
    check_depth(spec.options, names, origin=origin)
    try:
        drawn = outline(spec.model, spec.options)
    except UsageError as problem:
        raise CheckpointError(f"{origin}: {problem}", hint=problem.hint) from problem
    check_memory(drawn, origin=origin)
    return {name: tuple(tensor.shape) for name, tensor in weights_of(drawn).items()}


# What others call the activations that we have; the first of several names is the one that is written.
ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def their_activation(ours: str) -> str:
    """The name that others know an activation by."""
    return next(theirs for theirs, name in ACTIVATIONS.items() if name == ours)


@dataclass(frozen=True)
class Fields:
    """Options that we and others have alike, read in both directions.

    `sizes` are ours → theirs, which a config has to say; `defaulted` are ours → theirs and what it is where a config
    does not say it; `activation` is what theirs is called, and its default.
    """

    sizes: Mapping[str, str]
    defaulted: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    activation: tuple[str, str] | None = None

    def read(self, config: TheirConfig) -> dict[str, Any]:
        """Our options, from their config."""
        options = {ours: config[theirs] for ours, theirs in self.sizes.items()}
        options |= {ours: config.get(theirs, default) for ours, (theirs, default) in self.defaulted.items()}
        if self.activation is not None:
            options["activation"] = config.choose(self.activation[0], ACTIVATIONS, default=self.activation[1])
        return options

    def write(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Their config, from our options."""
        config = {theirs: options[ours] for ours, theirs in self.sizes.items()}
        config |= {theirs: options[ours] for ours, (theirs, _) in self.defaulted.items()}
        return config | ({self.activation[0]: their_activation(options["activation"])} if self.activation else {})


def refuse_uneven(config: TheirConfig, *pairs: tuple[str, str]) -> None:
    """Refuse models whose two sides differ where ours have one number for both."""
    for one, other in pairs:
        if config[one] != config[other]:
            raise CheckpointError(
                f"{config.origin}: {one} is {config[one]} and {other} is {config[other]}; "
                "regard has one number for both sides"
            )


def labels_of(config: TheirConfig) -> tuple[str, ...]:
    """The names of the classes in the order of their outputs; `LABEL_0` … where only their number is known."""
    named = config.get("id2label")
    if named:
        return tuple(str(named[key]) for key in sorted(named, key=int))
    return tuple(f"LABEL_{number}" for number in range(int(config.get("num_labels", 2))))


def labels_for(labels: tuple[str, ...]) -> dict[str, Any]:
    """What a config.json says of the classes."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
