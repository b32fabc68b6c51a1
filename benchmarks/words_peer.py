"""gensim's word2vec on a text, for `words.py`: run with the interpreter that has gensim; a line of JSON at the end."""

from __future__ import annotations

import gzip
import json
import sys
import time


def main() -> None:
    text, out, seed, alpha, workers = sys.argv[1:]
    import gensim
    from gensim.models import Word2Vec

    began, used = time.perf_counter(), time.process_time()
    with gzip.open(text, "rt", encoding="utf-8") as file:
        words = file.read().split()
    sentences = [words[i : i + 1000] for i in range(0, len(words), 1000)]
    model = Word2Vec(
        sentences, sg=1, vector_size=100, window=5, negative=5, sample=1e-3, min_count=5, epochs=5,
        alpha=float(alpha), workers=int(workers), seed=int(seed),
    )  # fmt: skip
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    model.wv.save_word2vec_format(out)
    print(json.dumps({"seconds": seconds, "cpu": cpu, "version": gensim.__version__}))


if __name__ == "__main__":
    main()
