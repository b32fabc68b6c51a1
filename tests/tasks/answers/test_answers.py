"""Answers: windows that lose nothing, spans that are pieces of the context, silence where there is none, learning."""

import json
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Rows
from regard.data.batching.plan import Position
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import ConfigError
from regard.fast.cpu.packed_linear import pack_linears
from regard.tasks.answers.answerer import Answerer
from regard.tasks.answers.config import AnswerData, AnswerOptions
from regard.tasks.answers.data import AnswerFiles
from regard.tasks.answers.metrics import answer_figures
from regard.tasks.answers.squad import Answer, Question
from regard.tasks.answers.training import AnswerBatch, AnswerTraining
from regard.tasks.answers.windows import NOT_HERE, Windows
from regard.tasks.templates import TextTemplate
from tiny_answers import Knowing, make_model, questions, tokenizer, windows

KINDS = ["words", "bpe", "bytes", "chars", "unigram", "wordpiece"]


@pytest.mark.parametrize("n_words", [0, 1, 14, 15, 16, 40, 10_000])
def test_windows_cover_the_context_and_overlap(n_words: int) -> None:
    cutter = windows(max_tokens=20, overlap=5)
    question = Question("", "which animal", " ".join(["dog"] * n_words))
    found = next(cutter([question]))
    held = [set(range(w.offset, w.offset + w.n_context)) for w in found.windows]
    assert set().union(*held) == set(range(n_words))
    assert all(len(w.row.ids) <= 20 for w in found.windows)
    assert all(len(a & b) >= 5 for a, b in pairwise(held))
    assert len(found.windows) == 1 if n_words <= 15 else len(found.windows) < 2 + n_words / 9
    ids = tokenizer().encode(question.context)
    for window in found.windows:
        inside = window.row.ids[window.start : window.start + window.n_context]
        assert inside == ids[window.offset : window.offset + window.n_context]


def test_a_long_question_leaves_room() -> None:
    cutter = windows(max_tokens=20, overlap=50)
    found = next(cutter([Question("", "which " * 100, "dog " * 30)]))
    assert all(w.n_context >= 8 for w in found.windows[:-1])
    assert len(found.windows) < 9


@pytest.mark.parametrize("kind", KINDS)
def test_targets_point_at_the_answer(kind: str) -> None:
    """Whatever the pieces: the characters between the targets are the answer, and every answer is in some window."""
    cutter = windows(kind, max_tokens=64, overlap=32)
    asked = questions(20)
    for question, passage in zip(asked, cutter(asked), strict=True):
        answer = question.answers[0]
        span = passage.tokens_of(answer)
        assert span is not None
        assert question.context[passage.spans[span[0]][0] : passage.spans[span[1]][1]] == answer.text
        targets = [window.target(span) for window in passage.windows]
        assert any(target != (NOT_HERE, NOT_HERE) for target in targets)
        ids = cutter.template.tokenizer.encode(question.context)
        for window, (start, end) in zip(passage.windows, targets, strict=True):
            if start != NOT_HERE:
                assert window.row.ids[start : end + 1] == ids[span[0] : span[1] + 1]


def test_an_answer_inside_a_word_takes_the_word() -> None:
    question = Question("", "which animal", "a snow owl , here", (Answer("no", 3),))
    passage = next(windows()([question]))
    assert passage.tokens_of(question.answers[0]) == (1, 1)
    assert passage.tokens_of(Answer("gone", None)) is None
    assert passage.tokens_of(Answer("", 3)) is None


@pytest.mark.parametrize("kind", ["bpe", "bytes", "words"])
def test_answers_are_exact_pieces_of_the_context(kind: str) -> None:
    context = "Émile  ate\n3 crêpes 🥞👍🏽 in\tParis, at the cafe\u0301."
    pieces = learn_tokenizer([context], kind, size=400)
    model = make_model(pieces).eval()
    said = Answerer(model, Windows(TextTemplate(pieces, max_tokens=32), overlap=8))(
        [("Où?", context)], AnswerOptions(n_best=40, max_answer=6)
    )[0]
    several = [said, *said.alternatives]
    assert len(several) == 40
    assert len({(one.start, one.end) for one in several}) == 40
    for one in several:
        assert one.start is not None
        assert one.text == context[one.start : one.end] != ""
        assert one.text == one.text.strip()
        assert not context[one.end or 0 :].startswith("\u0301")
    assert [one.probability for one in several] == sorted((one.probability for one in several), reverse=True)
    assert 0 < sum(one.probability for one in several) <= 1 + 1e-9


def answer(model: Any, context: str, **options: Any) -> Any:
    return Answerer(model, windows())([("which animal", context)], AnswerOptions(**options))[0]


def ids_of(text: str) -> list[int]:
    return tokenizer().encode(text)


def test_the_best_valid_span_wins() -> None:
    dog, red, trees = ids_of("dog")[0], ids_of("red")[0], ids_of("trees")[0]
    model = Knowing(starts={dog: 5, red: 8}, ends={dog: 4, trees: 6})
    context = "trees , red here then dog"
    assert answer(model, context).text == "red here then dog"  # 8 + 4; `trees` ends better, but comes before
    assert answer(model, context, max_answer=3).text == "dog"  # 5 + 4 > 8 + 0
    said = answer(model, context, max_answer=3, n_best=2)
    assert (said.text, said.start, said.end) == ("dog", 22, 25)
    assert [one.text for one in said.alternatives] == ["red"]  # 8 + 0


def test_the_question_is_never_the_answer() -> None:
    which = ids_of("which")[0]
    model = Knowing(starts={which: 50}, ends={which: 50})
    assert answer(model, "dog here").text in ("dog", "dog here", "here")


def test_probabilities_are_a_softmax_over_all_spans() -> None:
    dog, here = ids_of("dog here")
    starts, ends, none = {dog: 1.0, here: 0.5}, {dog: -0.5, here: 2.0}, 0.3
    spans = {"dog": 0.5, "dog here": 3.0, "here": 2.5, "": 0.6}
    total = sum(np.exp(list(spans.values())))
    model = Knowing(starts=starts, ends=ends, none=none)
    said = answer(model, "dog here", n_best=4, no_answer=True)
    found = {one.text: one.probability for one in [said, *said.alternatives]}
    assert found == pytest.approx({text: np.exp(score) / total for text, score in spans.items()})
    without = answer(model, "dog here")
    assert without.probability == pytest.approx(np.exp(3.0) / (total - np.exp(0.6)))


def test_no_answer_by_a_threshold() -> None:
    dog = ids_of("dog")[0]
    model = Knowing(starts={dog: 2.0}, ends={dog: 2.0}, none=2.5)  # 4 for the dog, 5 for nothing
    assert answer(model, "here dog").text == "dog"
    silent = answer(model, "here dog", no_answer=True)
    assert (silent.text, silent.start, silent.end, silent.plain()) == ("", None, None, "")
    assert answer(model, "here dog", no_answer=True, threshold=1.5).text == "dog"
    assert answer(model, "here dog", no_answer=True, n_best=2).alternatives[0].text == "dog"


def test_nothing_is_said_only_if_no_window_knows() -> None:
    """The dog is in the last window; the others hold nothing, and their [CLS] must not outvote it."""
    dog = ids_of("dog")[0]
    model = Knowing(starts={dog: 2.0}, ends={dog: 2.0}, none=1.5)
    assert answer(model, "here " * 100 + "dog", no_answer=True).text == "dog"


@pytest.mark.parametrize("context", ["", " ", "\n\t "])
def test_an_empty_context_has_no_answer(context: str) -> None:
    model = make_model(tokenizer()).eval()
    for no_answer in (False, True):
        said = answer(model, context, no_answer=no_answer)
        assert (said.text, said.start, said.alternatives) == ("", None, [])


def test_neighbours_and_batches_do_not_matter() -> None:
    asked = [(question.question, question.context) for question in questions(30)]
    model = make_model(tokenizer(), name="bert").double().eval()
    together = Answerer(model, windows())(asked, AnswerOptions(n_best=3))
    for tokens in (1, 200):
        apart = Answerer(model, windows(), batch_tokens=tokens)(asked, AnswerOptions(n_best=3))
        assert [(one.text, one.start) for one in apart] == [(one.text, one.start) for one in together]
        assert [one.probability for one in apart] == pytest.approx([one.probability for one in together], rel=1e-9)
    assert Answerer(model, windows())([]) == []


def test_packed_models_read_windows_end_to_end() -> None:
    asked = [(question.question, question.context) for question in questions(30)]
    model = make_model(tokenizer(), name="bert").eval()
    expected, found = (Answerer(one, windows())(asked, AnswerOptions(n_best=3)) for one in (model, pack_linears(model)))
    assert [(one.text, one.start) for one in found] == [(one.text, one.start) for one in expected]
    assert [one.probability for one in found] == pytest.approx([one.probability for one in expected], rel=1e-4)


def test_a_record_for_machines() -> None:
    dog = ids_of("dog")[0]
    said = answer(Knowing(starts={dog: 9.0}, ends={dog: 9.0}), "here  dog", n_best=2)
    record = json.loads(json.dumps(said.record()))
    assert (record["answer"], record["start"], record["end"]) == ("dog", 6, 9)
    assert set(record["alternatives"][0]) == {"answer", "probability", "start", "end"}


def make_task(n: int = 30, **options: Any) -> AnswerTraining:
    unanswerable = options.pop("unanswerable", False)
    train, valid = questions(n, unanswerable=unanswerable), questions(60, 1, unanswerable=unanswerable)
    cut = windows(max_tokens=options.pop("max_tokens", 24))
    return AnswerTraining(cut, train, valid, **{"budget_tokens": 200, "seed": 3} | options)


def gradients(task: AnswerTraining, *batches: AnswerBatch) -> tuple[float, dict[str, Tensor]]:
    model = make_model(task.windows.template.tokenizer, name="bert").double()
    n, total = sum(batch.n_tokens for batch in batches), 0.0
    for batch in batches:
        losses = task.loss(model, batch)
        assert int(losses.n_tokens) == batch.n_tokens
        (losses.total / n).backward()  # type: ignore[no-untyped-call]
        total += losses.total.item() / n
    return total, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_accumulated_is_one_big_batch() -> None:
    task = make_task()
    some = np.array([0, 5, 9, 20, 21, 22])
    whole, parts = gradients(task, task.batch(some)), gradients(task, task.batch(some[:1]), task.batch(some[1:]))
    assert whole[0] == pytest.approx(parts[0], rel=1e-12)
    for name, gradient in whole[1].items():
        torch.testing.assert_close(gradient, parts[1][name], rtol=1e-8, atol=1e-10, msg=name)


def test_to_be_recorded_windows_have_few_lengths_and_lose_the_same() -> None:
    task, some = make_task(r_drop=1.0, max_tokens=80), np.array([0, 5, 9, 20])
    before = task.batch(some)
    assert task.record()
    after = task.batch(some)
    assert before.ids.shape[1] < 64 == after.ids.shape[1] == after.segments.shape[1] == after.allowed.shape[1]
    one, other = gradients(task, before), gradients(task, after)
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], rtol=1e-8, atol=1e-10, msg=name)


def test_recorded_windows_are_no_longer_than_a_model_reads() -> None:
    task = make_task()
    task.record()
    assert task.batch(np.array([0, 5])).ids.shape[1] == task.windows.template.max_tokens == 24


def test_the_loss_is_cross_entropy_over_context_and_cls() -> None:
    task = make_task()
    model = make_model(task.windows.template.tokenizer, name="bert").double()
    passages = list(task.windows(questions(30)))
    expected, number = 0.0, 0
    for question, passage in zip(questions(30), passages, strict=True):
        for window in passage.windows:
            span = passage.tokens_of(question.answers[0])
            segments = torch.tensor([window.row.segments])
            start, end = model(Rows(torch.tensor([window.row.ids])), segments=segments)
            places = [NOT_HERE, *range(window.start, window.start + window.n_context)]
            targets = [torch.tensor(places.index(target)) for target in window.target(span)]
            pair = zip((start, end), targets, strict=True)
            expected += sum(F.cross_entropy(score[0, places], target).item() for score, target in pair) / 2
            number += 1
    losses = task.loss(model, task.batch(np.arange(number)))
    assert losses.total.item() == pytest.approx(expected, rel=1e-10)
    assert len(task.rows) == number > 30


def test_two_readings_have_to_be_right_and_to_agree() -> None:
    task = make_task(r_drop=3.0)
    model = make_model(task.windows.template.tokenizer, name="bert").double()
    batch = task.batch(np.arange(6))
    calm = make_task().loss(model, batch).total.item()
    assert task.loss(model, batch).total.item() == pytest.approx(calm, rel=1e-12)
    model.dropout.p = 0.5
    seen: list[Tensor] = []
    model.output.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    losses = task.loss(model.train(), batch)
    own, apart = 0.0, 0.0
    for row in range(12):
        scores = seen[0][row][batch.allowed[row % 6]].log_softmax(0)
        others = seen[0][(row + 6) % 12][batch.allowed[row % 6]].log_softmax(0)
        places = batch.allowed[row % 6].nonzero()[:, 0].tolist()
        for side, target in enumerate((batch.starts, batch.ends)):
            own -= float(scores[places.index(int(target[row % 6])), side]) / 4
            apart += float((scores[:, side].exp() * (scores - others)[:, side]).sum()) / 4
    assert apart > 0.01
    assert float(losses.nll) == pytest.approx(own, rel=1e-9)
    assert losses.total.item() == pytest.approx(own + 3.0 * apart, rel=1e-9)
    (losses.total / 6).backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_shares_together_are_the_batch_and_batches_resume() -> None:
    task = make_task()
    whole = list(islice(task.batches(Position()), 8))
    for rank in range(2):
        for (after, batch), (other, share) in zip(whole, task.batches(Position(), rank=rank, world=2), strict=False):
            assert after == other
            assert share.starts.tolist() == batch.starts[rank::2].tolist()
    again = next(task.batches(whole[3][0]))[1]
    assert torch.equal(again.ids, whole[4][1].ids)
    assert task.batch(np.arange(0)).n_tokens == 0
    moved = whole[0][1].to(torch.device("meta"))
    assert {tensor.device.type for tensor in vars(moved).values() if isinstance(tensor, Tensor)} == {"meta"}


@pytest.mark.parametrize("unanswerable", [False, True])
def test_it_learns_to_answer(unanswerable: bool) -> None:
    task = make_task(300, unanswerable=unanswerable, budget_tokens=1000)
    model = make_model(task.windows.template.tokenizer, name="bert")
    before = task.evaluate(model.eval())
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=5e-3)
    for _, batch in islice(task.batches(Position()), 150):
        (task.loss(model, batch).total / batch.n_tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    found = task.evaluate(model.eval())
    assert before["f1"] < 60
    assert found["f1"] > 90
    assert task.options.no_answer is unanswerable
    said = [one[2] for one in task.samples(model, 60)]
    assert answer_figures(said, task.valid) == found
    assert [one[:2] for one in task.samples(model, 2)] == [
        (q.question, q.answers[0].text if q.answers else "") for q in task.valid[:2]
    ]


def write_squad(path: Path, n: int) -> Path:
    articles: dict[str, list[dict[str, Any]]] = {}
    for q in questions(n):
        asked = {
            "id": q.id,
            "question": q.question,
            "answers": [{"text": a.text, "answer_start": a.start} for a in q.answers],
        }
        articles.setdefault(q.article, []).append({"context": q.context, "qas": [asked]})
    path.write_text(json.dumps({"data": [{"title": t, "paragraphs": p} for t, p in articles.items()]}))
    return path


def test_one_file_is_split_by_article(tmp_path: Path) -> None:
    write_squad(tmp_path / "x.json", 40)
    files = AnswerFiles(AnswerData(train=("x.json",), split=(0.6, 0.2, 0.2)), tmp_path)
    sets = files.read()
    parts = [sets.train, sets.valid, sets.tests["test"]]
    titles = [{q.article for q in part} for part in parts]
    assert [len(part) for part in parts] == [24, 8, 8]
    assert len(set.union(*titles)) == 5
    assert all(question.answers for question in sets.train)
    assert set(files.fingerprints()) == {"train"}
    other = AnswerFiles(AnswerData(train=("x.json",), split=(0.6, 0.4)), tmp_path)
    assert other.read().tests == {}
    assert other.fingerprints() != files.fingerprints()


def test_files_of_their_own_and_answers_that_cannot_be_learnt(tmp_path: Path) -> None:
    write_squad(tmp_path / "x.json", 10)
    table = json.loads((tmp_path / "x.json").read_text())
    table["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "unicorn " * 200, "answer_start": 3}]
    (tmp_path / "y.json").write_text(json.dumps(table))
    said: list[str] = []
    data = AnswerData(train=("y.json",), valid=("x.json",), test={"dev": ("x.json",)})
    sets = AnswerFiles(data, tmp_path).read(say=said.append)
    assert (len(sets.train), len(sets.valid), len(sets.tests["dev"])) == (9, 10, 10)
    assert "1 answers stand nowhere in their context" in said[0]
    assert said[1] == "1 of 10 training questions left out: no answer to point at"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnswerFiles(AnswerData()).read(), "data.train names no file"),
        (
            lambda: AnswerData(max_tokens=4, overlap=0),
            "data.max_tokens is 4, at least 8; data.overlap is 0, at least 1",
        ),
        (lambda: AnswerData(split=(1.0,)), r"data.split is \[1.0\]; allowed are two or three shares above 0"),
        (lambda: AnswerOptions(n_best=0), "decode.n_best is 0, at least 1"),
    ],
)
def test_options_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_real_questions_lose_no_answer(data_root: Path) -> None:
    """With pieces of any kind, the characters of the target tokens hold the answer, for all but decomposed accents."""
    asked = AnswerFiles(AnswerData(train=("squad/dev-v1.1.json.gz",)), data_root).read().valid[:400]
    pieces = learn_tokenizer((q.context for q in asked), "bpe", size=1500)
    cutter = Windows(TextTemplate(pieces, max_tokens=192), overlap=64)
    for question, passage in zip(asked, cutter(asked), strict=True):
        given = question.learnable()
        assert given is not None
        span = passage.tokens_of(given)
        assert span is not None
        assert given.text.strip() in question.context[passage.spans[span[0]][0] : passage.spans[span[1]][1]]
        assert any(window.target(span)[0] != NOT_HERE for window in passage.windows)
