"""Translation metrics: the figures of sacreBLEU, lengths in the right bucket, and differences that are not chance."""

import subprocess
import sys
from collections import Counter
from math import exp, log

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from regard.errors import UsageError
from regard.metrics.comparing import Comparison, paired
from regard.metrics.scores import Metric, TextFigures, bleu, bleu_by_length, exact_match, score_translations

REFERENCES = [
    "A dog runs along the beach.",
    "Two men in T-shirts are talking, aren't they?",
    "The little girl climbs into a wooden playhouse.",
    "A man sleeping in a green room on a couch.",
]
HYPOTHESES = [
    "A dog is running along the beach.",
    "Two men in t-shirts talk, aren't they?",
    "A little girl climbs into a wooden house.",
    "A man sleeps in a green room on a couch.",
]


def corpus(n, *, keep, seed):
    """Random references, and hypotheses that keep each word with the given chance."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(50)]
    references = [rng.choice(words, size=rng.integers(6, 20)).tolist() for _ in range(n)]
    hypotheses = [[word if rng.random() < keep else str(rng.choice(words)) for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in hypotheses]


def paired_bootstrap(references, a, b, *, metric="bleu", n=1000, seed) -> Comparison:
    """Two systems' texts, compared by one metric."""
    first, second = (TextFigures(texts, references, metrics=[metric]) for texts in (a, b))
    return paired((first, second), len(references), resamples=n, seed=seed, signatures=first.signatures())[0]


def multi_bleu(hypotheses, references):
    """BLEU-4 without smoothing over whitespace tokens, from its definition."""
    correct, total, n_hypothesis, n_reference = [0] * 4, [0] * 4, 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, theirs = hypothesis.split(), reference.split()
        n_hypothesis, n_reference = n_hypothesis + len(ours), n_reference + len(theirs)
        for n in range(4):
            mine, wanted = (
                Counter(tuple(line[i : i + n + 1]) for i in range(len(line) - n)) for line in (ours, theirs)
            )
            correct[n] += (mine & wanted).total()
            total[n] += mine.total()
    if 0 in correct:
        return 0.0
    precision = sum(log(c / t) for c, t in zip(correct, total, strict=True)) / 4
    return 100 * min(1.0, exp(1 - n_reference / n_hypothesis)) * exp(precision)


def test_three_metrics_with_the_values_and_signatures_of_sacrebleu():
    metrics = {metric.name: metric for metric in score_translations(HYPOTHESES, REFERENCES)}
    assert list(metrics) == ["BLEU", "chrF", "TER"]
    assert metrics["BLEU"].value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score > 30
    assert metrics["chrF"].value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score > 50
    assert 10 < metrics["TER"].value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score < 50
    version = sacrebleu.__version__
    assert metrics["BLEU"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert metrics["chrF"].signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert metrics["TER"].signature == f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version}"


def test_lower_case_and_tokenisation_reach_every_metric_and_its_signature():
    shouted = [line.upper() for line in REFERENCES]
    for metric, perfect in zip(score_translations(shouted, REFERENCES, lowercase=True), (100, 100, 0), strict=True):
        assert metric.value == pytest.approx(perfect)
        assert "case:lc" in metric.signature
    bleu_shouted, chrf_shouted, ter_shouted = (m.value for m in score_translations(shouted, REFERENCES))
    assert bleu_shouted < 20 > chrf_shouted
    assert ter_shouted == 0, "TER compares lower case, asked or not"
    by_character = bleu(HYPOTHESES, REFERENCES, tokenize="char")
    assert by_character.value > bleu(HYPOTHESES, REFERENCES).value
    assert "tok:char" in by_character.signature
    assert bleu(HYPOTHESES, REFERENCES) == score_translations(HYPOTHESES, REFERENCES)[0]


def test_moses_lower_is_multi_bleu_on_lowercased_tokens():
    pytest.importorskip("sacremoses")
    tokens = [
        "two men in t-shirts talk , aren 't they ?",
        "two men in t-shirts are talking , aren 't they ?",
    ]
    metric = bleu([HYPOTHESES[1]], [REFERENCES[1]], tokenize="moses-lower", language="en")
    assert metric.value == pytest.approx(multi_bleu(tokens[:1], tokens[1:]))
    assert metric.signature.startswith("nrefs:1|case:lc|eff:no|tok:moses-en|smooth:none|")
    assert metric == score_translations([HYPOTHESES[1]], [REFERENCES[1]], tokenize="moses-lower", language="en")[0]


def test_moses_lower_lowers_before_it_cuts():
    """Moses takes a full stop inside a line off its word only before a capital letter."""
    pytest.importorskip("sacremoses")
    lines = ["He left. Smith met him there again"], ["He left. Jones met him there again"]
    lowered = ["he left. smith met him there again"], ["he left. jones met him there again"]
    apart = ["he left . smith met him there again"], ["he left . jones met him there again"]
    found = bleu(*lines, tokenize="moses-lower", language="en").value
    assert found == pytest.approx(multi_bleu(*lowered))
    assert found != pytest.approx(multi_bleu(*apart))


def test_moses_lower_smooths_nothing():
    pytest.importorskip("sacremoses")
    pair = ["the cat sat there"], ["the cat lay down"]
    assert bleu(*pair).value > 0
    assert bleu(*pair, tokenize="moses-lower", language="en").value == pytest.approx(0)


def test_exact_match_is_a_share():
    assert exact_match(["a", "b", "c", "D"], ["a", "b", "x", "d"]).value == 0.5


def test_bleu_by_length_scores_each_bucket_alone():
    sources = ["w " * 9, "w " * 10, "w " * 19, "w " * 45]
    buckets = bleu_by_length(sources, HYPOTHESES, REFERENCES, edges=(10, 20, 30))
    assert [(bucket.label, bucket.n) for bucket in buckets] == [("0–9", 1), ("10–19", 2), ("20–29", 0), ("30+", 1)]
    scores = [bucket.metric and bucket.metric.value for bucket in buckets]
    one, two, three = (bleu(HYPOTHESES[part], REFERENCES[part]).value for part in (slice(1), slice(1, 3), slice(3, 4)))
    assert scores == [one, two, None, three]


@pytest.mark.parametrize("edges", [(), (0, 10), (20, 10), (10, 10)])
def test_edges_that_bound_nothing(edges):
    with pytest.raises(UsageError, match=r"edges \[.*\] do not bound buckets"):
        bleu_by_length(REFERENCES, HYPOTHESES, REFERENCES, edges=edges)


def test_a_real_difference_is_found():
    references, good = corpus(150, keep=0.9, seed=1)
    _, poor = corpus(150, keep=0.7, seed=1)
    found = paired_bootstrap(references, poor, good, n=300, seed=7)
    assert found.score_a == pytest.approx(bleu(poor, references).value)
    assert found.score_b == pytest.approx(bleu(good, references).value)
    assert found.difference == found.score_b - found.score_a
    assert 0 < found.low < found.difference < found.high
    assert found.p_value == pytest.approx(1 / 301), "not one resample is that far out"
    turned = paired_bootstrap(references, good, poor, n=300, seed=7)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert found == paired_bootstrap(references, poor, good, n=300, seed=7)
    assert found != paired_bootstrap(references, poor, good, n=300, seed=8)


def test_a_system_does_not_differ_from_itself():
    references, one = corpus(150, keep=0.8, seed=1)
    same = paired_bootstrap(references, one, one, n=100, seed=7)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_the_test_keeps_its_level():
    """Two systems equally good: p below 0.1 in about a tenth of all trials, neither never nor often."""
    n_alarms = 0
    for seed in range(60):
        references, one = corpus(60, keep=0.8, seed=seed)
        rng = np.random.default_rng(1000 + seed)
        coins = rng.random((2, len(references))) < 0.5
        a, b = ([r if c else h for c, r, h in zip(coin, references, one, strict=True)] for coin in coins)
        n_alarms += paired_bootstrap(references, a, b, n=100, seed=seed).p_value < 0.1
    assert 1 <= n_alarms <= 14


def test_the_interval_agrees_with_sacrebleu():
    """sacreBLEU resamples one system at a time; against a perfect system our difference is that system's score."""
    references, system = corpus(150, keep=0.8, seed=3)
    _, theirs = PairedTest(
        [("perfect", references), ("system", system)], {"BLEU": BLEU()}, [references], test_type="bs", n_samples=1000
    )()
    ours = paired_bootstrap(references, references, system, seed=1)
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs["BLEU"][1].ci, rel=0.12)
    assert theirs["BLEU"][1].p_value < 0.05 > ours.p_value


@pytest.mark.parametrize(("metric", "name"), [("chrf", "chrF"), ("ter", "TER")])
def test_other_metrics_are_compared_by_their_own_statistics(metric, name):
    references, good = corpus(20, keep=0.9, seed=1)
    _, poor = corpus(20, keep=0.6, seed=1)
    found = paired_bootstrap(references, poor, good, metric=metric, n=50, seed=1)
    scores = {m.name: m for m in score_translations(good, references)}
    assert (found.name, found.signature) == (name, scores[name].signature)
    assert found.score_b == pytest.approx(scores[name].value)
    assert (found.difference > 0) == (metric == "chrf"), "in TER, less is better"


def test_lines_that_do_not_pair_up():
    for call in (score_translations, bleu, exact_match):
        with pytest.raises(UsageError, match="3 hypotheses and 4 references do not pair up") as caught:
            call(HYPOTHESES[:3], REFERENCES)
        assert caught.value.hint == "is a line missing? an empty line counts as one"
        with pytest.raises(UsageError, match="nothing to score: 0 hypotheses and 0 references"):
            call([], [])
        with pytest.raises(UsageError, match="hypotheses is one text, not a list of lines"):
            call("abc", ["a", "b", "c"])
    with pytest.raises(UsageError, match="2 sources and 4 hypotheses and 4 references"):
        bleu_by_length(["a", "b"], HYPOTHESES, REFERENCES)


def test_settings_that_do_not_exist():
    with pytest.raises(UsageError, match="no tokenisation 'moses'; there are 13a, intl, char, zh, none, moses-lower"):
        bleu(HYPOTHESES, REFERENCES, tokenize="moses")
    with pytest.raises(UsageError, match="moses-lower needs the language of the references"):
        bleu(HYPOTHESES, REFERENCES, tokenize="moses-lower")
    with pytest.raises(UsageError, match="no metric 'comet'; there are bleu, chrf, ter"):
        TextFigures(HYPOTHESES, REFERENCES, metrics=["comet"])


def test_sacrebleu_is_loaded_only_when_something_is_scored():
    code = "import sys, regard.metrics.scores; print('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_metric_is_written_down_with_its_interval_if_it_has_one():
    plain = Metric("bleu", 21.5, "x|y")
    assert plain.record() == {"value": 21.5, "signature": "x|y"}
    assert str(plain) == "bleu                    21.50   x|y"
    sure = Metric("bleu", 21.5, "x|y", 20.0, 23.25, digits=1)
    assert sure.record() == {"value": 21.5, "signature": "x|y", "low": 20.0, "high": 23.25}
    assert str(sure) == "bleu                     21.5   95 % [20.0, 23.2]  x|y"
