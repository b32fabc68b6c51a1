"""What draws by example cost: steps of a small translator with `train.same_draws` and without, in turns.

python benchmarks/same_draws.py [--steps 20] [--layout padded]
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from regard.checkpoints.run import RunFolder
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.setup import RunContext
from regard.training.trainer import Trainer

SMALL = [
    "data.synthetic=dates", "data.n_train=4000", "data.n_valid=4", "data.n_test=4", "tokenizer.size=1000",
    "model.name=transformer", "model.d_model=256", "model.n_heads=4", "model.d_feedforward=1024",
    "model.n_encoder_layers=3", "model.n_decoder_layers=3", "model.dropout=0.1", "train.batch_tokens=2048",
    "train.plan=off",
]  # fmt: skip


def trainer_for(folder: Path, *given: str) -> Trainer:
    """A trainer at its first step."""
    recipe = make_recipe(find_recipe("translation"), [*SMALL, *given])
    context = RunContext.join(RunFolder(folder), device=recipe.train.device)
    setup = resolve(task_spec("translation").setup)(recipe, context)
    return Trainer(setup.task, setup.model, recipe.train, context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layout", default="padded")
    asked = parser.parse_args()
    rows = []
    for attention in (0.0, 0.1):
        seconds: dict[str, list[float]] = {"false": [], "true": []}
        with TemporaryDirectory() as folder, ExitStack() as stack:
            more = [f"train.layout={asked.layout}", f"model.attention_dropout={attention}"]
            steps = {
                draws: stack.enter_context(
                    trainer_for(Path(folder) / draws, *more, f"train.same_draws={draws}").rehearsal()
                )
                for draws in seconds
            }
            for number in range(asked.steps + 2):
                for draws, step in steps.items():
                    began = time.perf_counter()
                    step()
                    if number >= 2:
                        seconds[draws].append(time.perf_counter() - began)
        usual, keyed = median(seconds["false"]), median(seconds["true"])
        rows.append({"layout": asked.layout, "attention_dropout": attention, "usual_ms": round(1000 * usual, 1),
                     "same_draws_ms": round(1000 * keyed, 1), "times": round(keyed / usual, 2)})  # fmt: skip
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
