"""Moses tokenisation, for comparing with published figures: punctuation apart, one space between tokens.

A thin layer over `sacremoses`, which regard does not need otherwise. Nothing is escaped to XML entities.
"""

from functools import lru_cache
from typing import Any

from regard.errors import EnvironmentProblem


def moses_tokenize(text: str, language: str, *, split_dashes: bool = False) -> str:
    """A text with its Moses tokens separated by spaces; `split_dashes` writes word-word as `word @-@ word`.

    By default dashes are left alone, as in the published test sets: "t @-@ shirt" would count three words where
    "t-shirt" is one.
    """
    tool = _moses("MosesTokenizer", language)
    tokenized: str = tool.tokenize(text, aggressive_dash_splits=split_dashes, return_str=True, escape=False)
    return tokenized


def moses_detokenize(text: str, language: str) -> str:
    """Undo `moses_tokenize`, as far as the language's rules can tell where spaces were."""
    tool = _moses("MosesDetokenizer", language)
    joined: str = tool.detokenize(text.replace(" @-@ ", "-").split(), unescape=False)
    return joined


@lru_cache(maxsize=16)
def _moses(tool: str, language: str) -> Any:
    try:
        import sacremoses  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise EnvironmentProblem("Moses tokenisation needs sacremoses", hint='pip install "regard[moses]"') from None
    return getattr(sacremoses, tool)(lang=language)
