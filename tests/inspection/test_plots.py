"""Pictures: the right thing at the right place, whatever the labels are."""

import numpy as np
import pytest
from PIL import Image

from regard.errors import ShapeError, UsageError
from regard.inspection import plots
from regard.inspection.alignments import Alignment
from regard.inspection.plots import draw_alignment, draw_lengths, draw_weights
from regard.tasks.metrics import LengthBucket, Metric


def centre_of_full_weight(path):
    """Where the colour of weight 1 lies, as shares of height and width; the colour bar at the right is left out."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    full = (np.abs(pixels - [8, 48, 107]).sum(-1) < 6)[:, : int(pixels.shape[1] * 0.7)]
    rows, columns = np.nonzero(full)
    return rows.mean() / pixels.shape[0], columns.mean() / pixels.shape[1]


def test_a_map_is_drawn_the_right_way_round(tmp_path):
    weights = np.zeros((6, 6))
    weights[5, 0] = 1.0
    path = draw_weights(weights, tmp_path / "a.png", rows=list("uvwxyz"), columns=list("abcdef"))
    row, column = centre_of_full_weight(path)
    assert row > 0.7, "the last query is at the bottom"
    assert column < 0.3, "the first key is at the left"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_every_format_people_use(tmp_path, suffix):
    path = draw_weights(np.full((2, 3), 1 / 3), tmp_path / f"a.{suffix}", rows=["a", "b"], columns=["$x", "ß", "😀"])
    assert path.stat().st_size > 1000


def test_long_inputs_stay_within_a_screen(tmp_path):
    n = 300
    path = draw_weights(np.eye(n), tmp_path / "a.png", rows=["word" * 20] * n, columns=["w"] * n, title="long")
    width, height = Image.open(path).size
    assert max(width, height) <= 14 * 160 + 1


def test_heads_stand_side_by_side(tmp_path):
    one = draw_weights(np.eye(4), tmp_path / "1.png", rows=list("abcd"), columns=list("abcd"))
    three = draw_weights(np.stack([np.eye(4)] * 3), tmp_path / "3.png", rows=list("abcd"), columns=list("abcd"))
    assert Image.open(three).width > 1.8 * Image.open(one).width


def test_labels_that_do_not_fit_are_an_error(tmp_path):
    with pytest.raises(ShapeError, match=r"\(2, 3\) do not fit 3 row labels and 3 column labels"):
        draw_weights(np.eye(3)[:2], tmp_path / "a.png", rows=list("abc"), columns=list("abc"))


@pytest.fixture
def drawn(monkeypatch):
    """The figures as they are saved, so that what is on them can be measured."""
    figures = []
    save = plots._save

    def save_and_keep(figure, path):
        figures.append(figure)
        saved = save(figure, path)
        figure.draw_without_rendering()  # texts remember the resolution they were drawn at last
        return saved

    monkeypatch.setattr(plots, "_save", save_and_keep)
    return figures


def overlaps(labels):
    """How many pairs of labels are closer than four pixels."""
    boxes = [label.get_window_extent().padded(2) for label in labels if label.get_text()]
    return sum(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def alignment_of(pairs, *, n_target, n_source):
    matrix = np.zeros((n_target, n_source))
    for source, target in pairs:
        matrix[target, source] = 1.0
    return Alignment(pairs, matrix, "argmax")


def test_an_alignment_has_its_source_above_and_its_target_at_the_left(tmp_path, drawn):
    path = draw_alignment(
        alignment_of([(7, 0)], n_target=3, n_source=8), tmp_path / "a.png", source=list("m 3. Mai"), target=list("xyz")
    )
    axis = drawn[0].axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == list("m␣3.␣Mai")
    assert [label.get_text() for label in axis.get_yticklabels()] == ["x", "y", "z"]
    lowest = max(label.get_window_extent().y0 for label in axis.get_yticklabels())
    assert all(label.get_window_extent().y0 > lowest for label in axis.get_xticklabels())
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    rows, columns = np.nonzero(np.abs(pixels - [8, 48, 107]).sum(-1) < 6)
    assert rows.mean() < 0.5 * pixels.shape[0], "the first target word is the top row"
    assert columns.mean() > 0.8 * pixels.shape[1], "the last source word is the right column"
    assert (np.abs(pixels - [196, 98, 10]).sum(-1) < 6).any(), "the pair has its dot"


@pytest.mark.parametrize(
    ("n_target", "n_source", "word"),
    [
        *((n_target, n_source, "W") for n_target, n_source in ((1, 1), (10, 30), (60, 60))),
        *((n_target, n_source, "Straßenbahnhaltestelle" * 2) for n_target, n_source in ((3, 5), (30, 30), (120, 90))),
    ],
)
def test_labels_are_readable_and_do_not_overlap(tmp_path, drawn, n_target, n_source, word):
    found = alignment_of([(0, 0)], n_target=n_target, n_source=n_source)
    path = draw_alignment(found, tmp_path / "a.png", source=[word] * n_source, target=[word] * n_target, title="title")
    axis = drawn[0].axes[0]
    assert overlaps([*axis.get_xticklabels(), *axis.get_yticklabels(), drawn[0]._suptitle]) == 0
    assert all(label.get_fontsize() >= 7 for label in axis.get_xticklabels() + axis.get_yticklabels())
    page = drawn[0].bbox
    for label in axis.get_xticklabels() + axis.get_yticklabels():
        box = label.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert max(Image.open(path).size) <= 15 * 160
    cell = axis.get_window_extent().width / n_source / drawn[0].dpi
    assert cell >= 0.9 * min(0.34, 11 / max(n_target, n_source)), "labels have their own room, not the cells'"


def test_an_alignment_and_labels_that_do_not_fit(tmp_path):
    with pytest.raises(ShapeError, match="3 target and 2 source words does not fit 2 target and 3 source labels"):
        draw_alignment(
            alignment_of([], n_target=3, n_source=2), tmp_path / "a.png", source=list("abc"), target=list("ab")
        )
    with pytest.raises(UsageError, match="nothing to draw: 0 target and 2 source words"):
        draw_alignment(alignment_of([], n_target=0, n_source=2), tmp_path / "a.png", source=list("ab"), target=[])


def buckets(scores, counts):
    return [
        LengthBucket(10 * i, 10 * i + 9, n, None if score is None else Metric("BLEU", score, ""))
        for i, (score, n) in enumerate(zip(scores, counts, strict=True))
    ]


def test_lengths_show_every_model_every_count_and_no_point_where_nothing_is(tmp_path, drawn):
    counts = [1200, 30, 0, 4]
    models = {f"model {i}": buckets([30 + i, 20 + i, None, 10 + i], counts) for i in range(5)}
    draw_lengths(tmp_path / "a.png", models=models, title="bottleneck")
    above, below = drawn[0].axes
    assert [text.get_text() for text in above.get_legend().get_texts()] == list(models)
    assert above.lines[1].get_ydata().tolist() == pytest.approx([31, 21, np.nan, 11], nan_ok=True)
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in above.lines}) == 5
    assert [text.get_text() for text in below.texts] == ["1,200", "30", "0", "4"]
    assert [label.get_text() for label in below.get_xticklabels()] == ["0–9", "10–19", "20–29", "30–39"]
    assert above.get_ylim()[0] == 0, "a cut axis would make a small fall look large"
    assert overlaps([*below.get_xticklabels(), *below.texts]) == 0


def test_lengths_of_different_sentences_are_not_compared(tmp_path):
    models = {"a": buckets([1, 2], [3, 4]), "b": buckets([1, 2], [3, 5])}
    with pytest.raises(UsageError, match="2 models with 2 kinds of length buckets") as caught:
        draw_lengths(tmp_path / "a.png", models=models)
    assert "same edges" in caught.value.hint
    with pytest.raises(UsageError, match="0 models"):
        draw_lengths(tmp_path / "a.png", models={})
