"""From files to batches of ids, for text pairs.

    lines, tables, sources      files → `Pair`s: parallel text, TSV, CSV, JSONL, Parquet; streamed
    checks                      what is wrong with the pairs, counted and reported
    tokenizers, vocabulary      text ↔ ids, and learning the pieces; `dropout` cuts anew each epoch; `moses`
    corpus, idfiles             ids on disk, memory-mapped
    batching, shapes            which examples go together, the same for the same seed, resumable
    dates, calendars            a synthetic task: written dates → ISO dates

Nothing here knows a model, and only `pad` touches torch.
"""

from regard.data.batching import BatchPlan, Position, ShardedPlan, pad
from regard.data.checks import CheckedPairs, Policy, Report, check_pairs, pair_hashes
from regard.data.corpus import Corpus, corpus_key
from regard.data.dates import DateGenerator, date_pairs, write_dates
from regard.data.dropout import BpeDropout
from regard.data.moses import moses_detokenize, moses_tokenize
from regard.data.sources import Pair, PairSource, read_lines
from regard.data.tokenizers import Tokenizer
from regard.data.vocabulary import learn_tokenizer

__all__ = [
    "BatchPlan",
    "BpeDropout",
    "CheckedPairs",
    "Corpus",
    "DateGenerator",
    "Pair",
    "PairSource",
    "Policy",
    "Position",
    "Report",
    "ShardedPlan",
    "Tokenizer",
    "check_pairs",
    "corpus_key",
    "date_pairs",
    "learn_tokenizer",
    "moses_detokenize",
    "moses_tokenize",
    "pad",
    "pair_hashes",
    "read_lines",
    "write_dates",
]
