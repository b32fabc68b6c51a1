"""Curves of training: every figure where it belongs, readable with one run and with many."""

import json

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from regard.checkpoints.history import read_history
from regard.errors import UsageError
from regard.inspection.plots import curves as plots
from regard.inspection.plots.colours import DARK, LIGHT
from regard.inspection.plots.curves import MOST_RUNS, Curve, CurvePanel, draw_curves


@pytest.fixture
def drawn(monkeypatch):
    """The figures as they are saved, so that what is on them can be measured."""
    figures = []
    save = plots.save_picture

    def save_and_keep(figure, path, theme):
        figures.append(figure)
        saved = save(figure, path, theme)
        figure.draw_without_rendering()
        return saved

    monkeypatch.setattr(plots, "save_picture", save_and_keep)
    return figures


def panels(n_runs, *, names=None, n_panels=5):
    """Loss, three figures and a rate, of so many runs."""
    names = names or [f"run-{i}" for i in range(n_runs)]
    steps = list(range(100, 2001, 100))
    kinds = ["training loss (nats a token)", "validation loss (nats a token)", "BLEU", "exact match", "learning rate"]
    made = []
    for number, kind in enumerate(kinds[:n_panels]):
        values = [[5 / (1 + s / 300) + i / 5 + number for s in steps] for i in range(n_runs)]
        best = 2000 if number == 2 else None
        made.append(CurvePanel(kind, [Curve(n, steps, v, best, dots=number > 0) for n, v in zip(names, values)]))  # noqa: B905
    return made


def ticks(axis):
    """The labels of an axis within its limits; matplotlib keeps one more on either side."""
    low, high = axis.get_view_interval()
    places = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [label for place, label in places if low <= place <= high]


def texts(figure):
    """What is written on a picture."""
    every = []
    for axis in (axis for axis in figure.axes if axis.axison):
        every += [axis.xaxis.label, axis.yaxis.label, *ticks(axis.xaxis), *ticks(axis.yaxis), *axis.texts]
    legends = [axis.get_legend() for axis in figure.axes if axis.get_legend()] + list(figure.legends)
    every += [text for legend in legends for text in legend.get_texts()]
    return [one for one in every if one.get_text()]


def overlapping(figure):
    """Pairs of texts that touch, and texts that leave the picture."""
    boxes = {one: one.get_window_extent() for one in texts(figure)}
    inside = figure.bbox.padded(1)
    hit = [(a.get_text(), b.get_text()) for a in boxes for b in boxes if id(a) < id(b) and boxes[a].overlaps(boxes[b])]
    out = [one.get_text() for one, box in boxes.items() if not (inside.x0 <= box.x0 and box.x1 <= inside.x1)]
    return hit + out


@pytest.mark.parametrize(
    ("n_runs", "n_panels"), [(1, 1), (1, 3), (1, 4), (2, 5), (8, 2), (8, 5), (MOST_RUNS, 4), (MOST_RUNS, 5)]
)
def test_nothing_overlaps(tmp_path, drawn, n_runs, n_panels):
    draw_curves(panels(n_runs, n_panels=n_panels), tmp_path / "a.png", title="a title" if n_runs == 1 else "")
    assert overlapping(drawn[0]) == []


def test_long_names_are_clipped_and_strange_ones_shown(tmp_path, drawn):
    names = ["a-very-long-name-" * 6 + str(i) for i in range(7)] + ["$x_1$ ß"]
    draw_curves(panels(8, names=names, n_panels=4), tmp_path / "a.png")
    assert overlapping(drawn[0]) == []
    shown = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert shown[-2:] == [r"\$x_1\$ ß", "best evaluation"]
    assert len(set(shown)) == 9
    assert max(map(len, shown)) <= 36


def test_axes_are_named_and_share_their_steps(tmp_path, drawn):
    draw_curves(panels(2), tmp_path / "a.png")
    shown = [axis for axis in drawn[0].axes if axis.axison]
    assert [axis.get_ylabel() for axis in shown] == [panel.name for panel in panels(2)]
    assert {axis.get_xlabel() for axis in shown} == {"step"}
    assert len({axis.get_xlim() for axis in shown}) == 1


def test_runs_are_named_once_in_the_place_that_is_free(tmp_path, drawn):
    draw_curves(panels(2), tmp_path / "a.png")
    draw_curves(panels(2, n_panels=4), tmp_path / "b.png")
    odd, even = drawn
    assert [text.get_text() for text in odd.axes[5].get_legend().get_texts()] == ["run-0", "run-1", "best evaluation"]
    assert odd.legends == []
    assert [text.get_text() for text in even.legends[0].get_texts()] == ["run-0", "run-1", "best evaluation"]


def test_every_run_has_its_own_look_and_keeps_it(tmp_path, drawn):
    draw_curves(panels(MOST_RUNS), tmp_path / "a.png")
    looks = []
    for axis in drawn[0].axes[:2]:
        lines = [line for line in axis.lines if len(line.get_xdata()) > 1]
        looks.append([(to_hex(line.get_color()), str(line._unscaled_dash_pattern)) for line in lines])
    assert len(set(looks[0])) == MOST_RUNS
    assert looks[0] == looks[1]


def test_the_best_point_is_ringed_and_said(tmp_path, drawn):
    curve = Curve("a", [10, 20, 30], [1.0, 4.0, 2.0], best=20, dots=True)
    draw_curves([CurvePanel("BLEU", [curve])], tmp_path / "a.png")
    axis = drawn[0].axes[0]
    ring = next(line for line in axis.lines if line.get_markerfacecolor() == "none")
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (20, 4.0)
    assert [text.get_text() for text in axis.texts] == ["best 4, step 20"]


@pytest.mark.parametrize(
    ("values", "loss", "scale"),
    [
        ([5.0, 0.5, 0.05], True, "log"),
        ([5.0, 3.0, 2.0], True, "linear"),
        ([0.01, 0.5, 0.9], False, "linear"),
        ([5.0, 0.5, 0.0], True, "linear"),
        ([5.0, 0.5, -1.0], True, "linear"),
    ],
)
def test_a_loss_over_orders_of_magnitude_gets_a_logarithmic_axis(tmp_path, drawn, values, loss, scale):
    draw_curves([CurvePanel("it", [Curve("a", [1, 2, 3], values)], loss=loss)], tmp_path / "a.png")
    axis = drawn[0].axes[0]
    assert axis.get_yscale() == scale
    low, high = axis.get_ylim()
    assert low <= min(values) < max(values) < high


def test_many_noisy_reports_are_smoothed_and_still_shown(tmp_path, drawn):
    chance = np.random.default_rng(1)
    steps, noise = list(range(1000)), chance.normal(5, 1, 1000)
    noisy, exact = Curve("a", steps, list(noise), noisy=True), Curve("a", steps, list(noise))
    draw_curves([CurvePanel("loss", [noisy]), CurvePanel("rate", [exact])], tmp_path / "a.png")
    draw_curves([CurvePanel("loss", [noisy, Curve("b", steps, list(noise), noisy=True)])], tmp_path / "b.png")
    (pale, mean), (line,) = (axis.lines for axis in drawn[0].axes)
    assert np.std(mean.get_ydata()) < 0.5 < np.std(pale.get_ydata())
    assert abs(np.mean(mean.get_ydata()) - np.mean(noise)) < 0.05
    np.testing.assert_array_equal(line.get_ydata(), noise)
    assert len(drawn[1].axes[0].lines) == 2, "of several runs the means alone"


def test_one_report_is_a_point(tmp_path, drawn):
    draw_curves([CurvePanel("loss", [Curve("a", [10], [2.0])], loss=True)], tmp_path / "a.png")
    assert drawn[0].axes[0].lines[0].get_marker() == "o"
    assert drawn[0].axes[0].get_ylim()[0] == 0


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("dark", [False, True])
def test_every_format_on_light_and_dark_paper(tmp_path, suffix, dark):
    path = draw_curves(panels(2), tmp_path / "new" / f"a.{suffix}", dark=dark)
    assert path.stat().st_size > 1000
    if suffix == "png":
        corner = Image.open(path).convert("RGB").getpixel((2, 2))
        assert "#{:02x}{:02x}{:02x}".format(*corner) == (DARK if dark else LIGHT).paper
    if suffix == "svg":
        assert "learning rate" in path.read_text()


def contrast(one, other):
    """The contrast of two colours, as the web's guidelines for accessibility compute it."""

    def light(colour):
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("colours", "theme"), [(plots._LIGHT, LIGHT), (plots._DARK, DARK)])
def test_every_line_stands_out_from_the_paper(colours, theme):
    assert len(set(colours)) == 8
    assert min(contrast(colour, theme.paper) for colour in colours) >= 3


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_curves([], tmp_path / "a.png")
    with pytest.raises(UsageError, match="25 runs in one picture cannot be told apart; at most 24 can"):
        draw_curves(panels(25), tmp_path / "a.png")


def test_a_history_that_a_kill_cut_short(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        {"step": 10, "loss": 2.0, "nll": 1.5, "lr": 0.1, "epoch": 0},
        {"step": 20, "loss": 1.0, "nll": float("nan"), "lr": 0.2, "epoch": 1},
        {"step": 20, "bleu": 3.0, "note": "good"},
        {"step": 15, "loss": 1.7, "nll": 1.2, "lr": 0.15, "epoch": 1},
        {"step": 20, "bleu": 4.0},
        {"stepp": 3},
        [1],
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 30, "lo', encoding="utf-8")
    history = read_history(path)
    assert list(history.training["loss"].items()) == [(10, 2.0), (15, 1.7), (20, 1.0)]
    assert history.training["nll"] == {10: 1.5, 15: 1.2}
    assert history.validation == {"bleu": {20: 4.0}}
    assert history.last_step == 20
    assert not read_history(tmp_path / "gone.jsonl")
