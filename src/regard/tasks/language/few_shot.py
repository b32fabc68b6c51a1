"""Few-shot prompting: the task is put into the input, and the model goes on with it (Brown et al., 2020).

    few_shot_prompt("cheese", examples=[("sea otter", "loutre de mer")], task="Translate English to French:")

    Translate English to French:
    sea otter => loutre de mer
    cheese =>

Without examples it is zero-shot prompting. The answer is what the model writes up to `between`: give that as a stop
string.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import UsageError


def few_shot_prompt(
    query: str,
    *,
    examples: Sequence[tuple[str, str]] = (),
    task: str = "",
    asks: str = "",
    answers: str = " => ",
    between: str = "\n",
) -> str:
    """A prompt that shows how it is done, then asks.

    Each example is `asks` + question + `answers` + answer, and the query the same without its answer; a line for
    `task` comes first, and `between` stands between all of them. No whitespace is left at the end: the model's own
    pieces begin with it.
    """
    if not answers.strip():
        raise UsageError(f"answers is {answers!r}; allowed is what sets answers off, such as ' => ' or '\\nA: '")
    shown = [f"{asks}{question}{answers}{answer}" for question, answer in examples]
    return between.join([*([task] if task else []), *shown, f"{asks}{query}{answers}".rstrip()])
