"""llama.cpp beside `gguf_blocks.py`: a process of its own, in the environment that llama-cpp-python was built in.

It reads one JSON object a line and answers with one: what to do, and how many seconds that took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import llama_cpp as llama
import numpy as np


@llama.llama_log_callback
def _silent(level: int, text: bytes, data: Any) -> None: ...


class Peer:
    """A model in llama.cpp, through its own interface: sequences decode together in one batch."""

    def __init__(self, path: str, threads: int) -> None:
        llama.llama_log_set(_silent, None)
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        self.n_tokens = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.threads = threads

    def context(self, n_rows: int, length: int) -> Any:
        chosen = llama.llama_context_default_params()
        chosen.n_ctx, chosen.n_seq_max, chosen.n_batch, chosen.n_ubatch = n_rows * length, n_rows, 1024, 512
        chosen.n_threads = chosen.n_threads_batch = self.threads
        return llama.llama_init_from_model(self.model, chosen)

    def decode(self, prompt: list[int], n_rows: int, n_steps: int) -> float:
        """Seconds for so many greedy steps of rows that began with the prompt."""
        context, batch = self.context(n_rows, len(prompt) + n_steps + 8), llama.llama_batch_init(1024, 0, n_rows)
        for row in range(n_rows):
            self._run(context, batch, prompt, range(len(prompt)), [row] * len(prompt))
        tokens, place = [prompt[-1]] * n_rows, len(prompt)
        begun = 0.0
        for step in range(n_steps + 4):
            if step == 4:
                begun = time.perf_counter()
            self._run(context, batch, tokens, [place + step] * n_rows, range(n_rows), all_logits=True)
            scores = [llama.llama_get_logits_ith(context, row) for row in range(n_rows)]
            tokens = [int(np.ctypeslib.as_array(one, shape=(self.n_tokens,)).argmax()) for one in scores]
        seconds = time.perf_counter() - begun
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        return seconds

    def read(self, prompt: list[int]) -> float:
        """Seconds for reading a prompt."""
        context, batch = self.context(1, len(prompt) + 8), llama.llama_batch_init(1024, 0, 1)
        begun = time.perf_counter()
        self._run(context, batch, prompt, range(len(prompt)), [0] * len(prompt))
        llama.llama_synchronize(context)
        seconds = time.perf_counter() - begun
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        return seconds

    def _run(self, context: Any, batch: Any, tokens: Any, places: Any, rows: Any, *, all_logits: bool = False) -> None:
        batch.n_tokens = len(tokens)
        for i, (token, place, row) in enumerate(zip(tokens, places, rows, strict=True)):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, place, 1, row
            batch.logits[i] = all_logits or i == len(tokens) - 1
        if llama.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")


def main() -> None:
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked.pop("what")
        if what == "memory":
            with open("/proc/self/statm") as file:
                answer: Any = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        else:
            answer = peer.decode(**asked) if what == "decode" else peer.read(**asked)
        print(json.dumps({"answer": answer, "version": llama.__version__}), flush=True)


if __name__ == "__main__":
    main()
