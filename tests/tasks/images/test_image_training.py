"""Images as something to train on: sets and their checks, batches, the loss, the config."""

import numpy as np
import pytest
import tiny_images
import torch
import torch.nn.functional as F

from regard.data.batching.plan import Position
from regard.errors import ConfigError, DataError
from regard.models.registry import build
from regard.tasks.images.augmentation import Augmentation
from regard.tasks.images.classifier import ImageClassifier, outputs_of
from regard.tasks.images.config import ImageConfig
from regard.tasks.images.data import ImageData, ImageFiles
from regard.tasks.images.training import ImagePlan, ImageTraining, image_loss


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    path = tiny_images.write_npz(folder / "shapes.npz", 64)
    return ImageFiles(ImageData(train=(str(path),)), made=folder / "made").read()


def tiny(n_classes=4):
    torch.manual_seed(0)
    return build("vit", {"size": "nano", "d_model": 24, "n_layers": 1, "image": (16, 16), "n_classes": n_classes})


def test_sets_are_divided_and_scaled_by_the_training_part(sets):
    assert (len(sets.train), len(sets.valid), len(sets.tests["test"])) == (58, 6, 16)
    assert sets.space.names == tiny_images.CLASSES
    assert not set(sets.train.rows.tolist()) & set(sets.valid.rows.tolist())
    pixels = sets.train.pixels() / 255
    np.testing.assert_allclose(sets.space.mean, pixels.mean((0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(sets.space.std, pixels.std((0, 2, 3)), atol=1e-6)
    images, labels = tiny_images.shapes(64)
    i = 17
    np.testing.assert_array_equal(sets.train.pixels([i])[0], images[sets.train.rows[i]].transpose(2, 0, 1))
    assert sets.space.names[sets.train.labels[i]] == labels[sets.train.rows[i]]
    assert sets.train.places()[i].endswith(f"train_images[{sets.train.rows[i]}]")


def files(folder, **data):
    return ImageFiles(
        ImageData(**{k: (str(v),) if k in ("train", "valid") else v for k, v in data.items()}), made=folder
    )


def test_what_sets_refuse(tmp_path):
    photos = tiny_images.write_folder(tmp_path / "photos", 16)
    others = tiny_images.write_folder(tmp_path / "others", 8)
    (others / "ring").rename(others / "square")
    with pytest.raises(DataError, match=r"003.png: the class 'square' was not trained on; there are bars, cross"):
        files(tmp_path / "made", train=photos, valid=others).read()
    with pytest.raises(ConfigError, match=r"data.train names no images"):
        files(tmp_path / "made").read()
    with pytest.raises(DataError, match=r"nowhere: there is no such file"):
        files(tmp_path / "made", train="nowhere").read()
    images, _ = tiny_images.shapes(4)
    np.savez(tmp_path / "one.npz", images=images, labels=["a"] * 4)
    with pytest.raises(DataError, match="one class only, 'a'"):
        files(tmp_path / "made", train=tmp_path / "one.npz").read()
    np.savez(tmp_path / "few.npz", images=images, labels=["a", "b", "c", "d"])
    with pytest.raises(DataError, match="4 images are too few to hold 1 out"):
        files(tmp_path / "made", train=tmp_path / "few.npz").read()
    np.savez(tmp_path / "tests.npz", test_images=images, test_labels=["a", "b", "c", "d"])
    with pytest.raises(DataError, match=r"tests.npz: has no train part; it has test"):
        files(tmp_path / "made", train=tmp_path / "tests.npz").read()
    for wrong, reason in [({"valid_share": 0.0}, "valid_share"), ({"size": 0}, "data.size is 0")]:
        with pytest.raises(ConfigError, match=reason):
            ImageData(**wrong)


def test_classes_that_are_numbers_are_ordered_by_size(tmp_path):
    images, _ = tiny_images.shapes(40)
    np.savez(tmp_path / "n.npz", images=images, labels=[10, 9, 2, 100] * 10)
    assert files(tmp_path / "made", train=tmp_path / "n.npz").read().space.names == ("2", "9", "10", "100")


def test_report_off_leaves_test_sets_alone(tmp_path):
    path = tiny_images.write_npz(tmp_path / "shapes.npz", 40)
    assert files(tmp_path / "made", train=path, report=False).read().tests == {}


def test_batches_are_all_of_one_size_and_resume_anywhere(sets):
    plan = ImagePlan(58, 16, seed=1)
    for number in range(3):
        batches = plan.epoch(number)
        assert [len(batch) for batch in batches] == [16, 16, 16]
        assert len(set(np.concatenate(batches).tolist())) == 48
    assert not np.array_equal(plan.epoch(0)[0], plan.epoch(1)[0])
    assert [len(batch) for batch in ImagePlan(5, 16, seed=1).epoch(0)] == [5]
    task = ImageTraining(sets.space, sets.train, sets.valid, batch_examples=16, seed=1)
    stream = task.batches(Position())
    first = [next(stream) for _ in range(5)]
    after = next(task.batches(first[3][0]))
    assert after[0] == first[4][0]
    assert torch.equal(after[1].rows, first[4][1].rows)
    shares = [next(task.batches(Position(), rank=rank, world=2))[1].rows for rank in (0, 1)]
    assert sorted(torch.cat(shares).tolist()) == sorted(first[0][1].rows.tolist())


def test_held_on_the_device_or_gathered_is_the_same(sets):
    augmentation = Augmentation(crop=0.1, flip=True, mixup=0.5)
    losses = []
    for resident in (False, True):
        task = ImageTraining(
            sets.space, sets.train, sets.valid, batch_examples=16, seed=1, augmentation=augmentation, resident=resident
        )
        _, batch = next(task.batches(Position()))
        assert (batch.pixels is None) == resident
        torch.manual_seed(5)
        losses.append(task.loss(tiny(), batch.to(torch.device("cpu"))))
    assert torch.equal(losses[0].total, losses[1].total)
    assert int(losses[0].n_tokens) == 16


def test_the_loss_is_torchs_cross_entropy(sets):
    task = ImageTraining(sets.space, sets.train, sets.valid, batch_examples=16, seed=1, label_smoothing=0.2)
    _, batch = next(task.batches(Position()))
    model = tiny().eval()
    found = task.loss(model, batch)
    logits = model(sets.space.normalised(batch.pixels))
    smoothed = F.cross_entropy(logits, batch.labels, label_smoothing=0.2, reduction="sum")
    torch.testing.assert_close(found.total, smoothed)
    torch.testing.assert_close(found.nll, F.cross_entropy(logits, batch.labels, reduction="sum").detach())
    soft = torch.rand(16, 4).softmax(-1)
    total, _ = image_loss(model, sets.space.normalised(batch.pixels), soft, 0.0)
    torch.testing.assert_close(total, F.cross_entropy(logits, soft, reduction="sum"))


def test_mirror_images_are_averaged_as_probabilities(sets):
    model = tiny().eval()
    plain, both = (ImageClassifier(model, sets.space, flip=flip) for flip in (False, True))
    pixels = torch.from_numpy(sets.valid.pixels())
    expected = (plain.scores(pixels).exp() + plain.scores(pixels.flip(-1)).exp()) / 2
    torch.testing.assert_close(both.scores(pixels).exp(), expected)
    assert not torch.allclose(both.scores(pixels), plain.scores(pixels))
    np.testing.assert_allclose(outputs_of(plain, sets.valid), plain.scores(pixels).numpy(), atol=1e-6)
    guess = plain.guess(np.log([0.1, 0.2, 0.6, 0.1]), k=2)
    assert (guess.label, list(guess.probabilities)) == ("disc", ["disc", "cross"])
    assert guess.plain() == "disc\t0.6000"


def test_evaluations_are_evenly_spaced_and_the_last_step_is_one():
    for epochs, n_batches, given in [(30, 10, {}), (100, 7, {"evaluations": 12}), (0.5, 10, {}), (3, 1, {})]:
        config = ImageConfig(epochs=epochs, **given).for_epochs(n_batches)
        assert config.steps % config.eval_every == 0
        assert config.steps // config.eval_every <= ImageConfig(**given).evaluations
        assert abs(config.steps - epochs * n_batches) <= config.eval_every / 2 + 10
        assert config.warmup <= config.steps / 10 + 1
    assert ImageConfig(epochs=0, steps=7).for_epochs(10).steps == 7
    for wrong, reason in [
        ({"batch_examples": 0}, "batch_examples is 0"),
        ({"r_drop": 1.0}, "r_drop"),
        ({"mix": 2.0}, "mix is 2.0"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            ImageConfig(**wrong)
