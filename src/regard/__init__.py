"""regard: attention models on PyTorch. Train them, run them, and see what they look at.

    regard.attention.attend(query, key, value, score=..., mask=...)      the one function
    regard.watch(module, layers=[3], kinds=["cross"])                    look inside any module built on it
    regard.NadarayaWatson(bandwidth=...).fit(X, y).predict(X2)           a scikit-learn estimator

Importing regard loads PyTorch and the attention core; everything heavier is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard import attention
from regard.attention import watch
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.models.nadaraya_watson import NadarayaWatson

__version__ = "0.1.0"
__all__ = ["NadarayaWatson", "RegardError", "__version__", "attention", "watch"]

_LAZY = {"NadarayaWatson": "regard.models.nadaraya_watson"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
