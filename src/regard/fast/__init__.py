"""Second implementations of what the rooms above define: nothing here is needed for a correct result.

print(*regard.fast.explain(model), sep="\\n")        what would run for a model, and why not something faster
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("Choice", "explain"):
        from regard.fast import select

        return getattr(select, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
