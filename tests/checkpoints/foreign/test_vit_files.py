"""ViT in Hugging Face's folders: logits equal to transformers', in both directions, at odd sizes."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from hub_peers import close, ours, randomised, transformers
from regard.checkpoints.foreign.hub import open_foreign, write_hub
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.errors import CheckpointError, UsageError
from regard.models.registry import build
from regard.tasks.exporting import export_hub
from regard.tasks.importing import import_model

TINY = {
    "image_size": 9, "patch_size": 3, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 20,
    "num_hidden_layers": 2,
}  # fmt: skip
VARIANTS = {
    "plain": {},
    "oblong": {"image_size": [14, 9], "patch_size": 4, "hidden_act": "gelu_new"},
    "unbiased": {"qkv_bias": False, "layer_norm_eps": 1e-6, "hidden_act": "relu"},
}


def theirs(folder, architecture="ViTForImageClassification", **more):
    torch.manual_seed(0)
    config = transformers.ViTConfig(**TINY | {"num_labels": 5} | more)
    model = randomised(getattr(transformers, architecture)(config))
    model.save_pretrained(folder)
    return model


def sizes(more):
    size = more.get("image_size", 9)
    return (size, size) if isinstance(size, int) else tuple(size)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_classifier_says_what_theirs_says(variant, tmp_path):
    more = VARIANTS[variant]
    peer = theirs(tmp_path, **more)
    model, found = ours(tmp_path)
    assert (found.task, found.model, found.labels) == ("images", "vit", tuple(f"LABEL_{i}" for i in range(5)))
    images = torch.randn(3, 3, *sizes(more))
    with torch.no_grad():
        close(model(images), peer(images).logits)


@pytest.mark.parametrize("pooler", [True, False])
def test_a_bare_model_gives_the_same_vectors(pooler, tmp_path):
    torch.manual_seed(0)
    peer = randomised(transformers.ViTModel(transformers.ViTConfig(**TINY), add_pooling_layer=pooler))
    peer.save_pretrained(tmp_path)
    model, found = ours(tmp_path)
    assert (found.options["n_classes"], found.options["pooler"]) == (0, pooler)
    images = torch.randn(3, 3, 9, 9)
    with torch.no_grad():
        said = peer(images)
        close(model.encode(images), said.last_hidden_state)
        close(model(images), said.pooler_output if pooler else said.last_hidden_state[:, 0])


def test_other_sizes_are_interpolated_as_theirs(tmp_path):
    peer = theirs(tmp_path)
    model, _ = ours(tmp_path)
    images = torch.randn(2, 3, 15, 12)
    with torch.no_grad():
        close(model(images), peer(images, interpolate_pos_encoding=True).logits)


@pytest.mark.parametrize(("variant", "n_classes"), [("plain", 4), ("odd", 4), ("plain", 0)])
def test_ours_opens_in_transformers(variant, n_classes, tmp_path):
    torch.manual_seed(0)
    options = {"image": (10, 14), "patch": 5, "d_model": 12, "n_heads": 3, "d_feedforward": 20, "n_layers": 2}
    options |= {"n_classes": n_classes, "pooler": n_classes == 0}
    options |= {"odd": {"activation": "gelu_tanh", "bias": False, "norm_epsilon": 1e-5}, "plain": {}}[variant]
    model = randomised(build("vit", options))
    labels = ("ant", "bee", "cat", "dog")[:n_classes] or None
    write_hub(tmp_path, ModelSpec("images", "vit", options, labels), tensors=weights_of(model), tokenizer=None)
    kind = "ViTForImageClassification" if n_classes else "ViTModel"
    peer = getattr(transformers, kind).from_pretrained(tmp_path).eval()
    images = torch.randn(2, 3, 10, 14)
    with torch.no_grad():
        said = peer(images)
        close(model(images), said.logits if n_classes else said.pooler_output)
    if n_classes:
        assert peer.config.id2label == dict(enumerate(labels))


def test_what_they_have_no_words_for_is_not_written(tmp_path):
    for other in ({"stem": "conv"}, {"pooling": "mean"}, {"positions": "sinusoidal"}):
        options = {"image": (8, 8), "patch": 4, "d_model": 8, "n_heads": 2, "n_layers": 1, "stem_layers": 2} | other
        model = build("vit", options)
        with pytest.raises(CheckpointError, match="no format of others can express this vit"):
            write_hub(tmp_path, ModelSpec("images", "vit", options), tensors=weights_of(model), tokenizer=None)


def test_configs_that_ours_cannot_be(tmp_path):
    theirs(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for wrong, reason in [
        ({"architectures": ["ViTForMaskedImageModeling"]}, "architecture 'ViTForMaskedImageModeling' is not known"),
        ({"patch_size": [3, 4]}, "patches of 3 × 4; regard has square ones only"),
        ({"image_size": "big"}, "image_size is 'big'"),
        ({"pooler_act": "relu"}, "pooler_act is 'relu', which regard does not have; it has 'tanh'"),
        ({"hidden_size": 12}, "weights do not fit"),
        ({"num_hidden_layers": 3}, r"encoder.layer.2.*missing"),
    ]:
        (tmp_path / "config.json").write_text(json.dumps(config | wrong))
        with pytest.raises(CheckpointError, match=rf"(?s){reason}"):
            open_foreign(tmp_path)


def processed(folder, image):
    """Pixels as transformers prepares them."""
    kind = getattr(transformers, "ViTImageProcessorPil", transformers.ViTImageProcessor)
    return kind.from_pretrained(folder)(image, return_tensors="pt").pixel_values


def test_from_file_to_probabilities_it_is_the_same(tmp_path):
    """Their folder is loaded, imported and exported; all four say the same about a photograph."""
    place, run, out = tmp_path / "theirs", tmp_path / "run", tmp_path / "out"
    peer = theirs(place, id2label={0: "ant", 1: "bee", 2: "cat", 3: "dog", 4: "emu"})
    given = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 9, "width": 9},
             "resample": 2, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
             "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}  # fmt: skip
    (place / "preprocessor_config.json").write_text(json.dumps(given))
    smooth = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    image = Image.fromarray(smooth).resize((28, 20), Image.Resampling.BILINEAR)
    image.save(tmp_path / "a.png")
    with torch.no_grad():
        expected = peer(processed(place, image)).logits.softmax(-1)[0]
    import_model(place, run)
    assert export_hub(run, out) == "ViTForImageClassification"
    for folder in (place, run, out):
        said = regard.load(folder, "cpu")(str(tmp_path / "a.png"))
        shares = torch.tensor([said.probabilities[name] for name in ("ant", "bee", "cat", "dog", "emu")])
        torch.testing.assert_close(shares, expected, rtol=0, atol=1e-3)
    with torch.no_grad():
        again = transformers.ViTForImageClassification.from_pretrained(out).eval()
        torch.testing.assert_close(again(processed(out, image)).logits.softmax(-1)[0], expected, rtol=0, atol=1e-4)


def test_a_backbone_says_that_it_has_no_classes(tmp_path):
    theirs(tmp_path, "ViTModel")
    model = regard.load(tmp_path, "cpu")
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    with pytest.raises(UsageError, match="no classes to tell apart") as error:
        model(str(tmp_path / "a.png"))
    assert "model.start" in error.value.hint
    assert model.look(str(tmp_path / "a.png")).weights["self"].shape == (2, 3, 10, 10)


def test_fine_tuning_starts_from_their_weights(tmp_path):
    import tiny_images

    theirs(tmp_path / "theirs", image_size=12)
    place = tiny_images.write_npz(tmp_path / "shapes.npz", 24)
    run, _ = tiny_images.train_images(
        tmp_path, f'data.train=["{place}"]', f'model.start="{tmp_path / "theirs"}"', "train.epochs=0",
        "train.steps=1", "train.lr=1e-9", "train.batch_examples=8",
    )  # fmt: skip
    mine, start = regard.load(run, "cpu").module, open_foreign(tmp_path / "theirs")
    assert (mine.config.n_classes, mine.config.image, mine.config.patch) == (4, (16, 16), 3)
    torch.testing.assert_close(weights_of(mine)["stem.projection.weight"], start.tensors["stem.projection.weight"])
    table = weights_of(mine)["positions.table.weight"]
    assert table.shape == (1 + 25, 24)
    torch.testing.assert_close(table[0], start.tensors["positions.table.weight"][0], rtol=0, atol=1e-6)
    shutil.rmtree(tmp_path / "theirs")
    assert regard.load(run, "cpu").space.names == tiny_images.CLASSES
