"""regard: attention models on PyTorch. Train them, run them, and see what they look at.

    model = regard.load("runs/de")                                       a run folder, ready for its task
    model("A dog runs.")    model.look("A dog runs.").plot("a.png")      what it says, and what it looked at
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
    from regard.tasks.base import Predictor
    from regard.tasks.opening import load
    from regard.tasks.predictions import Prediction

__version__ = "0.1.0"
__all__ = [
    "NadarayaWatson",
    "Prediction",
    "Predictor",
    "RegardError",
    "__version__",
    "attention",
    "load",
    "watch",
]

_LAZY = {
    "NadarayaWatson": "regard.models.nadaraya_watson",
    "Prediction": "regard.tasks.predictions",
    "Predictor": "regard.tasks.base",
    "load": "regard.tasks.opening",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
