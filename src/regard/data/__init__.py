"""From files to batches of ids, for text pairs and for plain text.

    lines, tables, sources      files → `Pair`s: parallel text, TSV, CSV, JSONL, Parquet; streamed
    texts                       files and folders → `Document`s, streamed
    checks                      what is wrong with the pairs, counted and reported
    tokenizers, vocabulary      text ↔ ids, and learning the pieces; `dropout` cuts anew each epoch; `moses`
    roles, framing, traits      special tokens and how texts are set between them, ours and others'; what a tokenizer is
    corpus, streams, idfiles    ids on disk, memory-mapped: of pairs, and of texts end to end; `marks` around texts
    ragged                      sequences end to end, so that a batch is made in whole arrays; `merging`, `hashing`
    batching, shapes, rowplan   which examples go together, the same for the same seed, resumable
    dates, calendars            a synthetic task: written dates → ISO dates

Nothing here knows a model, and only `pad` touches torch.
"""

from regard.data.batching import BatchPlan, Position, ShardedPlan, pad
from regard.data.checks import CheckedPairs, Policy, Report, check_pairs, pair_hashes
from regard.data.corpus import Corpus, corpus_key
from regard.data.dates import DateGenerator, date_pairs, write_dates
from regard.data.dropout import BpeDropout
from regard.data.marks import Marks
from regard.data.moses import moses_detokenize, moses_tokenize
from regard.data.rowplan import RowPlan
from regard.data.sources import Pair, PairSource, read_lines
from regard.data.streams import TokenStream
from regard.data.texts import Document, TextSource
from regard.data.tokenizers import Framed, Roles, Tokenizer
from regard.data.vocabulary import learn_tokenizer

__all__ = [
    "BatchPlan",
    "BpeDropout",
    "CheckedPairs",
    "Corpus",
    "DateGenerator",
    "Document",
    "Framed",
    "Marks",
    "Pair",
    "PairSource",
    "Policy",
    "Position",
    "Report",
    "Roles",
    "RowPlan",
    "ShardedPlan",
    "TextSource",
    "TokenStream",
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
