"""The few lines of Python that use a folder written for CTranslate2, as its README.md says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.checkpoints.usage import Usage

_EXAMPLE = "A dog runs along the beach."

_OPENED = """\
import ctranslate2
from tokenizers import Tokenizer
"""
_TRANSLATOR = """
source, target = Tokenizer.from_file({source!r}), Tokenizer.from_file({target!r})
source.encode_special_tokens = True  # what is written like a special token is text
translator = ctranslate2.Translator(".", device="cpu")

pieces = source.encode({example!r}, add_special_tokens=False).tokens
result = translator.translate_batch(
    [pieces],
    beam_size={beam},
    length_penalty={length_penalty},
    max_decoding_length={max_length},
    suppress_sequences={banned},
)[0]
print(target.decode([target.token_to_id(piece) for piece in result.hypotheses[0]]))
"""
_GENERATOR = """
tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.encode_special_tokens = True  # what is written like a special token is text
generator = ctranslate2.Generator(".", device="cpu")

pieces = {opening} + tokenizer.encode({example!r}, add_special_tokens=False).tokens
result = generator.generate_batch(
    [pieces],
    max_length={max_length},
    include_prompt_in_result=False,
    suppress_sequences={banned},
)[0]
print(tokenizer.decode([tokenizer.token_to_id(piece) for piece in result.sequences[0]]))
"""
_ENCODER = """import numpy as np

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.encode_special_tokens = True  # what is written like a special token is text
encoder = ctranslate2.Encoder(".", device="cpu")

pieces = {opening} + tokenizer.encode({example!r}, add_special_tokens=False).tokens + {closing}
states = np.array(encoder.forward_batch([pieces]).last_hidden_state)[0]  # (pieces, width)
vector = states.mean(0)
print(vector / np.linalg.norm(vector))
"""
_WHISPER = """from faster_whisper import WhisperModel

segments, _ = WhisperModel(".", device="cpu").transcribe("talk.wav")
print(" ".join(segment.text.strip() for segment in segments))
"""
_LINES: Mapping[str, str] = {
    "Translator": _OPENED + _TRANSLATOR,
    "Generator": _OPENED + _GENERATOR,
    "Encoder": _OPENED + _ENCODER,
    "Whisper": _WHISPER,
}


def readme(kind: str, usage: Usage, *, files: tuple[str, str], pieces: Sequence[str]) -> str:
    """The README of a folder whose model is opened by CTranslate2's class `kind`.

    `files` are the tokenizers of the source and the target, `pieces` what stands for each id of the latter.
    """
    lines = _LINES[kind].format(
        source=files[0],
        target=files[1],
        opening=[pieces[index] for index in usage.opening],
        closing=[pieces[index] for index in usage.closing],
        banned=[[pieces[index]] for index in usage.banned] or None,
        beam=usage.beam,
        length_penalty=usage.length_penalty,
        max_length=usage.max_length,
        example=_EXAMPLE,
    )
    package = "faster-whisper" if kind == "Whisper" else "ctranslate2 tokenizers"
    return (
        f"# A model for CTranslate2\n\nWritten by regard, for `ctranslate2.{'models.' * (kind == 'Whisper')}{kind}`."
        f" `pip install {package}`, then in this folder:\n```python\n{lines}```\n"
    )
