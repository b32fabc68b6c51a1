import numpy as np
import pytest
import torch

from regard.errors import ConfigError, DataError
from regard.models.word_vectors import WordVectors, WordVectorsConfig
from regard.tasks.words.config import WordData
from regard.tasks.words.data import Likeness, Questions, measure, read_test, spearman

WORDS = {"man": 2, "woman": 3, "king": 4, "queen": 5, "apple": 6}


def model():
    made = WordVectors(WordVectorsConfig(n_tokens=7, d_model=3))
    with torch.no_grad():
        made.input[2:] = torch.tensor([[1, 0, 0.2], [0, 1, 0.2], [1, 0, 1], [0, 1, 1], [0.1, 0.1, -1]])
    return made


def written(tmp_path, text):
    file = tmp_path / "test.txt"
    file.write_bytes(text.encode())
    return file


def test_questions_are_read_by_section_and_scored(tmp_path):
    test = read_test(
        written(tmp_path, ": kin\r\nMan Woman King Queen\r\nman king woman apple\n: other\nman woman x y\n")
    )
    assert isinstance(test, Questions)
    assert test.sections == ["kin", "kin", "other"]
    measured = measure(model(), WORDS, test, lowercase=True)
    found = measured.metrics()
    assert found["accuracy"].value == 0.5
    assert found["kin"].value == 0.5
    assert found["covered"].value == pytest.approx(2 / 3)
    assert found["accuracy"].signature == "2 of 3 questions, the others hold unknown words"
    assert measure(model(), WORDS, test, lowercase=False).metrics()["accuracy"].value == 0.0
    assert "other" not in found


def test_pairs_are_read_in_several_ways_and_ranked(tmp_path):
    for text in ("man\tking\t9\nman\twoman\t2\nman\tapple\t1\n", "a,b,score\nman,king,9\nman,woman,2\nman,apple,1\n"):
        test = read_test(written(tmp_path, text))
        assert isinstance(test, Likeness)
        assert list(test.judged) == [9, 2, 1]
        measured = measure(model(), WORDS, test, lowercase=True).metrics()
        assert measured["spearman"].value == pytest.approx(1.0)
        assert measured["covered"].value == 1.0


def test_nothing_known_is_no_score(tmp_path):
    measured = measure(model(), {}, read_test(written(tmp_path, "a b 1\nc d 2\n")), lowercase=True).metrics()
    assert (measured["spearman"].value, measured["covered"].value) == (0.0, 0.0)
    asked = measure(model(), {}, read_test(written(tmp_path, "a b c d\n")), lowercase=True).metrics()
    assert (asked["accuracy"].value, asked["covered"].value) == (0.0, 0.0)


def test_spearman_is_that_of_scipy():
    scipy = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, 40).astype(float), rng.normal(size=40)
    assert spearman(a, b) == pytest.approx(scipy.spearmanr(a, b).statistic, abs=1e-12)
    assert spearman(np.ones(5), np.arange(5.0)) == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no questions and no pairs"),
        (": a\n", "sections and no questions"),
        (": a\nb c d\n", r":2: 3 words; a question has 4: 'b c d'"),
        ("a b 1\nc d\n", r":2: not two words and a number: 'c d'"),
        ("a b c\n", "holds no pairs"),
        ("a b 1\nc d nan\n", ":2: not two words and a number"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_test(written(tmp_path, text))


def test_wrong_settings_are_told_together():
    with pytest.raises(ConfigError, match=r"data.window is 0, at least 1; data.sample is -1, at least 0"):
        WordData(window=0, sample=-1)
