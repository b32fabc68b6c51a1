"""Pictures: the right thing at the right place, whatever the labels are."""

import numpy as np
import pytest
from PIL import Image

from regard.errors import ShapeError, UsageError
from regard.inspection.alignments import Alignment
from regard.inspection.plots import attention as plots
from regard.inspection.plots.attention import draw_alignment, draw_grid, draw_lengths
from regard.inspection.plots.colours import DARK, LIGHT
from regard.inspection.record import Axis, Look, Map
from regard.metrics.scores import LengthBucket, Metric

FULL = [10, 45, 88]  # the colour of weight 1


def centre_of_full_weight(path):
    """Where the colour of weight 1 lies, as shares of height and width; the colour bar at the right is left out."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    full = (np.abs(pixels - FULL).sum(-1) < 6)[:, : int(pixels.shape[1] * 0.7)]
    rows, columns = np.nonzero(full)
    return rows.mean() / pixels.shape[0], columns.mean() / pixels.shape[1]


def one_map(weights, path, rows, columns, **options):
    return draw_grid(np.asarray(weights)[None, None], path, rows=rows, columns=columns, names=[["map"]], **options)


def test_a_map_is_drawn_the_right_way_round(tmp_path):
    weights = np.zeros((6, 6))
    weights[5, 0] = 1.0
    row, column = centre_of_full_weight(one_map(weights, tmp_path / "a.png", list("uvwxyz"), list("abcdef")))
    assert row > 0.7, "the last query is at the bottom"
    assert column < 0.3, "the first key is at the left"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_every_format_people_use(tmp_path, suffix):
    path = one_map(np.full((2, 3), 1 / 3), tmp_path / f"a.{suffix}", ["a", "b"], ["$x", "ß", "😀"])
    assert path.stat().st_size > 1000


def test_long_inputs_stay_within_a_screen(tmp_path):
    n = 300
    path = one_map(np.eye(n), tmp_path / "a.png", ["word" * 20] * n, ["w"] * n, title="long")
    width, height = Image.open(path).size
    assert max(width, height) <= 15 * 160 + 1


@pytest.fixture
def drawn(monkeypatch):
    """The figures as they are saved, so that what is on them can be measured."""
    figures = []
    save = plots.save_picture

    def save_and_keep(figure, path, *theme):
        figures.append(figure)
        saved = save(figure, path, *theme)
        figure.draw_without_rendering()  # texts remember the resolution they were drawn at last
        return saved

    monkeypatch.setattr(plots, "save_picture", save_and_keep)
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
    rows, columns = np.nonzero(np.abs(pixels - FULL).sum(-1) < 6)
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


WORD = "Straßenbahnhaltestelle"


def grid(n_down, n_across, n_rows, n_columns):
    weights = np.full((n_down, n_across, n_rows, n_columns), 1 / n_columns)
    names = [[f"head {i * n_across + j}" for j in range(n_across)] for i in range(n_down)]
    return weights, names


@pytest.mark.parametrize("n", [5, 20, 60])
@pytest.mark.parametrize("heads", [(1, 1), (2, 4)])
def test_labels_of_many_maps_never_overlap(tmp_path, drawn, n, heads):
    weights, names = grid(*heads, n, n + 3)
    path = tmp_path / "a.png"
    draw_grid(weights, path, rows=[WORD] * n, columns=[WORD] * (n + 3), names=names, title="title")
    figure = drawn[0]
    maps = figure.axes[: heads[0] * heads[1]]
    labels = [label for axis in maps for label in (*axis.get_xticklabels(), *axis.get_yticklabels(), axis.xaxis.label)]
    shown = [label for label in labels if label.get_text()]
    assert overlaps([*shown, figure._suptitle]) == 0
    assert len(shown) > len(maps) + 6, "some labels are there"
    assert all(label.get_fontsize() >= 6.5 for label in shown)
    page = figure.bbox
    for label in shown:
        box = label.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert max(Image.open(path).size) <= 15 * 160


def test_maps_stand_where_their_names_do_and_the_scale_says_what_full_colour_means(tmp_path, drawn):
    weights, names = grid(2, 2, 48, 48)
    weights[1, 0, 0] = np.eye(48)[3]
    draw_grid(weights, tmp_path / "a.png", rows=["a"] * 48, columns=["b"] * 48, names=[names[0], ["here", ""]])
    axes = drawn[0].axes
    assert [axis.get_xlabel() for axis in axes[:4]] == ["head 0", "head 1", "here", ""]
    np.testing.assert_array_equal(axes[2].images[0].get_array(), weights[1, 0])
    assert not axes[3].images, "an empty name leaves its place empty"
    assert axes[4].get_yticklabels()[-1].get_text() == "≥ 0.5", "24 times an even share of 48 places"
    with pytest.raises(ShapeError, match=r"do not fit names and labels of \(1, 2, 48, 48\)"):
        draw_grid(weights, tmp_path / "a.png", rows=["a"] * 48, columns=["b"] * 48, names=names[:1])


def a_look(n_layers=3, n_heads=5, n=6):
    weights = np.random.default_rng(0).dirichlet(np.ones(n), size=(n_layers, n_heads, n)).astype(np.float32)
    found = Map("self", "text", "text", weights, tuple(range(n_layers)), tuple(range(n_heads)))
    return Look({"text": Axis(list("abcdef")[:n])}, {"self": found})


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("options", "n_maps"),
    [({}, 15), ({"layer": 1}, 5), ({"picture": "overview", "layer": 1}, 5), ({"picture": "rollout"}, 1)],
)
def test_a_record_draws_what_is_asked_for(tmp_path, drawn, options, n_maps, dark):
    path = a_look().plot(tmp_path / "a.png", dark=dark, **options)
    pictures = [axis for axis in drawn[0].axes if axis.images]
    assert len(pictures) == n_maps
    corner = np.asarray(Image.open(path).convert("RGB"))[2, 2]
    paper = (DARK if dark else LIGHT).paper
    assert corner.tolist() == [int(paper[i : i + 2], 16) for i in (1, 3, 5)]


def test_a_picture_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="picture is 'lines'; it may be auto, alignment, heads, overview, rollout"):
        a_look().plot(tmp_path / "a.png", picture="lines")
    with pytest.raises(UsageError, match="there is no layer 3; there are 0 to 2"):
        a_look().plot(tmp_path / "a.png", layer=3)


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
