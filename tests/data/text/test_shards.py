"""Shards of ids: the same bytes whatever the number of processes, and after any kill."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.batching.plan import BatchPlan, Position
from regard.data.batching.rows import RowPlan
from regard.data.io.shards import Workshop, group_files, work_folder
from regard.data.io.workers import each
from regard.data.text.corpus import Corpus
from regard.data.text.documents import TextSource
from regard.data.text.memmap_ids import FlatIds
from regard.data.text.pair_units import PairUnits
from regard.data.text.pairs import Pair, PairSet, PairSource
from regard.data.text.streams import StreamJob, TokenStream
from regard.data.text.text_units import HeldOut, TextUnits
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError
from regard.tasks.masked.sentences import SentenceCorpus

N_FILES, SHARD = 5, 2048


def line(file: int, number: int) -> str:
    return f"line {number * 7919 % 1009} of file {file}, {'very ' * (number % 5)}short."


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files: one gzipped, one with Windows' line ends, one empty."""
    folder = tmp_path_factory.mktemp("texts")
    for file in range(N_FILES):
        lines = [line(file, number) for number in range(300)]
        content = ("\r\n" if file == 1 else "\n").join(lines).encode()
        (folder / f"{file}.txt").write_bytes(b"" if file == 2 else content)
    (folder / "3.txt.gz").write_bytes(gzip.compress((folder / "3.txt").read_bytes()))
    (folder / "3.txt").unlink()
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer([line(0, number) for number in range(100)], size=300, verbatim=True)


def source(folder: Path) -> TextSource:
    return TextSource((folder,), split="line")


def stream(texts: Path, tokenizer: Tokenizer, into: Path, *, workers: int, **options: Any) -> TokenStream:
    units = TextUnits.of(source(texts), most=options.pop("most", 2**14), held=options.pop("held", None))
    return TokenStream.build_from(units, tokenizer, into, workshop=Workshop(workers, SHARD), fingerprint="k", **options)


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_any_number_of_processes_writes_the_same_bytes(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    whole = TokenStream.build(source(texts).documents(), tokenizer, tmp_path / "whole", fingerprint="k")
    made = {n: stream(texts, tokenizer, tmp_path / str(n), workers=n) for n in (1, 2, 3)}
    assert hashes(tmp_path / "1") == hashes(tmp_path / "2") == hashes(tmp_path / "3")
    assert len(made[1].header.shards) > 2
    assert made[2].ids.tolist() == whole.ids.tolist()
    assert made[2].extent == whole.extent
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".shards")] == []


def test_what_is_held_out_is_in_no_shard(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    held = HeldOut.of(source(texts), 0.3)
    kept = (document for other, document in held.documents() if not other)
    whole = TokenStream.build(kept, tokenizer, tmp_path / "whole", fingerprint="k")
    made = stream(texts, tokenizer, tmp_path / "made", workers=1, held=held)
    assert made.ids.tolist() == whole.ids.tolist()
    assert made.extent == whole.extent
    rest = sum(len(document.text) for document in held.held())
    total = sum(len(document.text) for document in source(texts).documents())
    assert made.extent.characters + rest == total
    assert 0.28 * total < rest <= 0.3 * total + 1


def test_a_text_of_one_document_goes_on_in_the_next_shard(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.text.documents.PART", 2**12)
    monkeypatch.setattr("regard.data.text.streams._CHUNK", 2**12)
    (tmp_path / "a.txt").write_text("".join(f"{line(0, number)}\n" for number in range(600)))
    one = TextSource((tmp_path / "a.txt",))
    units, workshop = TextUnits.of(one, most=2**14), Workshop(1, SHARD)
    made = TokenStream.build_from(units, tokenizer, tmp_path / "made", workshop=workshop)
    whole = TokenStream.build(one.documents(), tokenizer, tmp_path / "whole")
    assert len(made.header.shards) > 1
    assert made.header.documents == whole.header.documents == 1
    assert np.array_equal(made.ids[:], whole.ids)


def test_reading_goes_on_at_the_exact_example_across_shards(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    whole = TokenStream.build(source(texts).documents(), tokenizer, tmp_path / "whole")
    made = stream(texts, tokenizer, tmp_path / "made", workers=1)
    assert len(made.header.shards) > 1
    plan = RowPlan(len(made), 50, rows_per_batch=3, seed=1)
    rows = [made.rows(starts, 51).tolist() for _, starts in islice(plan.iterate(), 400)]
    assert rows == [whole.rows(starts, 51).tolist() for _, starts in islice(plan.iterate(), 400)]
    position = next(islice(plan.iterate(), 170, None))[0]
    assert [made.rows(starts, 51).tolist() for _, starts in islice(plan.iterate(position), 20)] == rows[171:191]


class Killed(BaseException):
    """What a kill looks like from within."""


def test_started_again_it_goes_on_with_the_shards_that_stand(
    tmp_path: Path, texts: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream(texts, tokenizer, tmp_path / "whole", workers=1, most=2**20)
    encoded = 0
    real = StreamJob.chunks

    def dying(job: StreamJob, unit: int) -> Iterator[Any]:
        nonlocal encoded
        for begun, documents in real(job, unit):
            for start in range(0, len(documents), 50):
                encoded += 1
                if encoded == 12:
                    raise Killed
                yield begun, documents[start : start + 50]

    monkeypatch.setattr(StreamJob, "chunks", dying)
    with pytest.raises(Killed):
        stream(texts, tokenizer, tmp_path / "made", workers=1, most=2**20)
    work = work_folder(tmp_path / "made")
    stood = {path.parent.name: path.stat().st_ino for path in work.glob("*-*/stream.ids")}
    assert len(stood) >= 2
    assert not (tmp_path / "made").exists()
    made = stream(texts, tokenizer, tmp_path / "made", workers=1, most=2**20)
    whole = TokenStream.open_checked(tmp_path / "whole")
    assert made.ids[:].tolist() == whole.ids[:].tolist()
    files = sorted((tmp_path / "made").glob("stream*.ids"), key=lambda path: (len(path.name), path.name))
    assert [path.stat().st_ino for path in files][: len(stood)] == [stood[name] for name in sorted(stood)]


def test_shards_of_something_else_are_thrown_away(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    work = work_folder(tmp_path / "made")
    (work / "00000-000").mkdir(parents=True)
    (work / "00000-000" / "facts.json").write_text("{}")
    (work / "plan.json").write_text('{"key": "another"}')
    assert len(stream(texts, tokenizer, tmp_path / "made", workers=1)) > 1000
    assert not work.exists()


SCRIPT = """
import sys, time
from pathlib import Path
from regard.data.io.shards import Workshop
from regard.data.text.documents import TextSource
from regard.data.text.streams import StreamJob, TokenStream
from regard.data.text.text_units import TextUnits
from regard.data.text.tokenizers import Tokenizer
folder, into, tokenizer = map(Path, sys.argv[1:])
units = TextUnits.of(TextSource((folder,), split="line"), most=2**14)
TokenStream.build_from(units, Tokenizer.load(tokenizer), into, workshop=Workshop(2, 2048), fingerprint="k")
"""


def test_a_killed_build_leaves_no_process_and_goes_on(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    made, work = tmp_path / "made", work_folder(tmp_path / "made")
    command = [sys.executable, "-c", SCRIPT, str(texts), str(made), str(tmp_path / "tokenizer.json")]
    build = subprocess.Popen(command, start_new_session=True)
    while build.poll() is None and not any(work.glob("*-*/facts.json")):
        time.sleep(0.01)
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    for _ in range(500):
        try:
            os.killpg(build.pid, 0)  # its workers are of its session
        except ProcessLookupError:
            break
        time.sleep(0.02)
    else:
        pytest.fail("a worker outlived the process that started it")
    again = stream(texts, tokenizer, made, workers=1)
    stream(texts, tokenizer, tmp_path / "whole", workers=1)
    assert hashes(made) == hashes(tmp_path / "whole")
    assert len(again) == len(TokenStream.open_checked(made))


def tables(folder: Path) -> PairSet:
    for file in range(3):
        rows = "" if file == 1 else "".join(f"{line(file, i)}\t{line(0, i + 1)}\n" for i in range(300))
        (folder / f"{file}.tsv").write_text(rows)
    return PairSet(tuple(PairSource(folder / f"{file}.tsv") for file in range(3)), every=10)


def test_pairs_in_shards_are_those_of_one_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs, said = tables(tmp_path), list[str]()
    units = PairUnits.of(pairs, lambda rows: (row for row in rows if row.line % 7), most=10_000, say=said.append)
    used = [pair for pair in pairs.pairs() if pair.line % 7]
    assert list(units.all_pairs()) == used
    assert said == [f"{tmp_path / '1.tsv'}: is empty, and passed over"]
    whole = Corpus.build(used, tokenizer, tokenizer, tmp_path / "whole", max_tokens=12)
    made = [
        Corpus.build_from(units, tokenizer, tokenizer, tmp_path / str(n), workshop=Workshop(n, 2048), max_tokens=12)
        for n in (1, 2)
    ]
    assert hashes(tmp_path / "1") == hashes(tmp_path / "2")
    assert len(made[0].header.shards) > 1
    assert made[0].header.dropped_long == whole.header.dropped_long > 0
    assert np.array_equal(made[0].source_lengths, whole.source_lengths)
    plan = BatchPlan(whole.source_lengths, whole.target_lengths, budget_tokens=400, seed=0)
    for _, indices in islice(plan.iterate(Position(0, 3)), 40):
        for side in ("sources", "targets"):
            expected, found = getattr(whole, side)(indices), getattr(made[1], side)(indices)
            assert np.array_equal(found.ids, expected.ids)
            assert np.array_equal(found.lengths, expected.lengths)
    assert made[1].source(len(whole) - 1).tolist() == whole.source(-1).tolist()


def test_sentences_in_shards_are_those_of_one_file(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    blank = TextSource((texts,), split="file")
    whole = SentenceCorpus.build(blank.documents(), tokenizer, tmp_path / "whole", longest=9)
    units, workshop = TextUnits.of(blank, most=2**14), Workshop(1, SHARD)
    made = SentenceCorpus.build_from(units, tokenizer, tmp_path / "made", workshop=workshop, longest=9)
    assert len(made.header.shards) > 1
    assert made.documents.tolist() == whole.documents.tolist()
    assert made.borders.tolist() == whole.borders.tolist()
    assert made.ids[:].tolist() == whole.ids[:].tolist()


def test_a_shard_that_is_gone_or_cut_short_is_noticed(tmp_path: Path, texts: Path, tokenizer: Tokenizer) -> None:
    stream(texts, tokenizer, tmp_path / "made", workers=1)
    shard = tmp_path / "made" / "stream-00001.ids"
    shard.write_bytes(shard.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"stream-00001\.ids: damaged"):
        TokenStream.open(tmp_path / "made")


def refuse(number: int) -> int:
    if number == 2:
        raise DataError("a.txt:3: this line", hint="that hint")
    return number * number


def test_what_processes_answer_and_refuse() -> None:
    from regard.data.text.checks import Policy

    assert each(abs, [3, -2, 5], workers=2) == {3: 3, -2: 2, 5: 5}
    with pytest.raises(DataError, match=r"a\.txt:3: this line") as problem:
        each(refuse, range(4), workers=1)
    assert problem.value.hint == "that hint"
    with pytest.raises(RuntimeError, match="in a process that prepares data"):
        each(Policy().action, [1, 2], workers=2)  # type: ignore[arg-type]


def test_errors_of_other_processes_are_said_as_ones_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for file in range(2):
        (tmp_path / f"{file}.txt").write_bytes(b"\n \n")
    units = TextUnits.of(TextSource((tmp_path / "0.txt", tmp_path / "1.txt")), most=1)
    with pytest.raises(DataError, match=r"\.txt: holds no text, only empty lines"):
        TokenStream.build_from(units, tokenizer, tmp_path / "made", workshop=Workshop(2, SHARD))


def test_files_in_groups() -> None:
    assert group_files([1, 2, 3, 9, 1, 1], 4) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert group_files([7], 4) == [(0, 1)]


def test_slices_over_several_arrays() -> None:
    parts = [np.arange(3), np.arange(3, 3), np.arange(3, 8)]
    flat = FlatIds(parts)
    for start in range(-9, 10):
        for stop in range(-9, 10):
            assert flat[start:stop].tolist() == list(range(8))[start:stop]
    assert np.shares_memory(flat[4:6], parts[2])
    assert np.asarray(flat, np.int32).tolist() == list(range(8)) == flat.tolist()


def test_pairs_say_which_file_they_are_from(tmp_path: Path) -> None:
    pairs = tables(tmp_path)
    assert list(pairs.pairs())[-1] == Pair(line(2, 298), line(0, 299), 299, str(tmp_path / "2.tsv"))
