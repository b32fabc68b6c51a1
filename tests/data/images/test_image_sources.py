"""Places that hold labelled images, decoded once and checked as a whole."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

import tiny_images
from regard.data.images.sources import ImageSource
from regard.data.images.store import ImageStore, pixels_of
from regard.errors import DataError


def png(seed=0, size=(6, 5)):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def folder(path, names=("cat/1.png", "cat/2.png", "dog/3.png")):
    for number, name in enumerate(names):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(png(number))
    return path


def tar(path, names, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for number, name in enumerate(names):
            entry, content = tarfile.TarInfo(name), png(number)
            if name.endswith("/"):
                entry.type, content = tarfile.DIRTYPE, b""
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def build(source, where, part=None, **how):
    return ImageStore.build(source.examples(part), where, **how)


def named(store):
    return [store.header.names[label] for label in store.labels]


def test_a_folder_of_class_folders(tmp_path):
    place = folder(tmp_path / "photos")
    (place / "cat" / "deep").mkdir()
    (place / "cat" / "deep" / "4.PNG").write_bytes(png(4))
    (place / "cat" / "notes.txt").write_text("no image")
    (place / ".hidden").mkdir()
    (place / "dog" / "._3.png").write_bytes(b"what a Mac leaves behind")
    source = ImageSource(place)
    assert source.parts() == []
    store = build(source, tmp_path / "store")
    assert named(store) == ["cat", "cat", "cat", "dog"]
    assert store.pixels.shape == (4, 3, 6, 5)
    assert isinstance(store.pixels, np.memmap)
    for row, example in enumerate(source.examples()):
        assert torch.equal(torch.from_numpy(np.array(store.pixels[row])), pixels_of(example, None))
    assert store.places[2] == str(place / "cat" / "deep" / "4.PNG")


@pytest.mark.parametrize("kind", ["folder", "tar.gz", "tar", "zip"])
def test_parts_are_found_wherever_they_are(kind, tmp_path):
    names = ["photos/train/cat/0.png", "photos/train/dog/1.png", "photos/val/cat/2.png", "photos/test/dog/3.png"]
    if kind == "folder":
        source = ImageSource(folder(tmp_path, names) / "photos")
    elif kind == "zip":
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for number, name in enumerate(names):
                archive.writestr(name, png(number))
        source = ImageSource(tmp_path / "a.zip")
    else:
        source = ImageSource(tar(tmp_path / f"a.{kind}", names, "w:gz" if kind == "tar.gz" else "w"))
    assert source.parts() == ["train", "valid", "test"]
    for part, seeds, labels in [("train", [0, 1], ["cat", "dog"]), ("valid", [2], ["cat"]), ("test", [3], ["dog"])]:
        store = build(source, tmp_path / part, part)
        assert named(store) == labels
        for row, seed in enumerate(seeds):
            again = np.array(Image.open(io.BytesIO(png(seed)))).transpose(2, 0, 1)
            np.testing.assert_array_equal(store.pixels[row], again)
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.suffix == "") == sorted(
        ["train", "valid", "test", *(["photos"] if kind == "folder" else [])]
    ), "nothing is unpacked beside the archive"


def test_a_table_names_images_from_its_own_folder(tmp_path):
    folder(tmp_path / "deep" / "photos")
    table = tmp_path / "deep" / "a.csv"
    table.write_text("image,label\nphotos/cat/1.png,x\nphotos/dog/3.png,y\n")
    assert named(build(ImageSource(table), tmp_path / "s")) == ["x", "y"]
    other = tmp_path / "deep" / "b.tsv"
    other.write_text("kind\tfile\nz\tphotos/cat/1.png\n")
    assert named(build(ImageSource(other, image="file", label="kind"), tmp_path / "t")) == ["z"]
    assert named(build(ImageSource(other, label="kind"), tmp_path / "t1")) == ["z"]
    with pytest.raises(DataError, match=r"b.tsv:1: no column 'kin'; it has: kind, file"):
        list(ImageSource(other, image="file", label="kin").examples())
    other.write_text("class\tfilename\nz\tphotos/cat/1.png\n")
    assert named(build(ImageSource(other), tmp_path / "t2")) == ["z"]
    table.write_text("image,label\nphotos/cat/1.png,x\nphotos/none.png,y\nphotos/dog/3.png,\n")
    with pytest.raises(DataError, match=r"a.csv:4: the label is empty"):
        build(ImageSource(table), tmp_path / "u")
    table.write_text("image,label\nphotos/cat/1.png,x\nphotos/none.png,y\n")
    with pytest.raises(DataError, match=r"(?s)1 of 2 images cannot be used.*a.csv:3: .*none.png: there is no such"):
        build(ImageSource(table), tmp_path / "u")
    (tmp_path / "deep" / "photos" / "none.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"(?s)a.csv:3: .*none.png: not an image that can be read"):
        build(ImageSource(table), tmp_path / "u")
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("layout", ["last", "first", "grey"])
def test_arrays_in_any_layout(layout, tmp_path):
    images, labels = tiny_images.shapes(8)
    given = {"last": images, "first": images.transpose(0, 3, 1, 2), "grey": images[..., 0]}[layout]
    np.savez(tmp_path / "a.npz", images=given, labels=np.array(labels)[:, None])
    store = build(ImageSource(tmp_path / "a.npz"), tmp_path / "s")
    expected = np.repeat(images[..., :1], 3, -1) if layout == "grey" else images
    np.testing.assert_array_equal(store.pixels, expected.transpose(0, 3, 1, 2))
    assert named(store) == labels


def test_arrays_that_cannot_be_used(tmp_path):
    images, labels = tiny_images.shapes(8)
    path = tmp_path / "a.npz"
    for arrays, reason in [
        ({"images": images}, "no array is called 'labels'; it has images"),
        ({"pictures": images}, "no array is called 'images'; it has pictures"),
        ({"images": images / 255, "labels": labels}, "images are float64, and uint8"),
        ({"images": images, "labels": labels[:-1]}, r"8 images and labels \(7,\)"),
        ({"images": images[0, 0], "labels": labels}, "images of shape"),
        ({"images": images, "labels": np.array([{}] * 8)}, "not a file of arrays"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=reason):
            list(ImageSource(path).examples())
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a file of arrays that can be read"):
        ImageSource(path).parts()


def test_classes_without_images_and_places_without_classes(tmp_path):
    place = folder(tmp_path / "photos")
    (place / "emu").mkdir()
    said: list[str] = []
    assert {example.label for example in ImageSource(place).examples(say=said.append)} == {"cat", "dog"}
    assert said == [f"{place}: passed over, since they hold no images: emu"]
    (tmp_path / "none" / "emu").mkdir(parents=True)
    with pytest.raises(DataError, match=r"none: none of its 1 class folders holds images"):
        build(ImageSource(tmp_path / "none"), tmp_path / "s")
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "1.png").write_bytes(png())
    with pytest.raises(DataError, match="holds no folders; one for each class"):
        build(ImageSource(tmp_path / "flat"), tmp_path / "s")
    archive = tar(tmp_path / "a.tar.gz", ["cat/", "cat/1.png", "emu/", "dog/", "dog/2.png"])
    assert {example.label for example in ImageSource(archive).examples(say=said.append)} == {"cat", "dog"}
    assert said[1:] == [f"{archive}: passed over, since they hold no images: emu"]
    with pytest.raises(DataError, match="holds no images in class folders"):
        build(ImageSource(tar(tmp_path / "b.tar", ["1.png"], "w")), tmp_path / "s")
    (tmp_path / "c.tar.gz").write_bytes(archive.read_bytes()[:200])
    with pytest.raises(DataError, match="not an archive that can be read"):
        ImageSource(tmp_path / "c.tar.gz").parts()


def test_all_broken_images_are_named_or_dropped(tmp_path):
    place = folder(tmp_path / "photos", [f"cat/{i:02d}.png" for i in range(20)] + ["dog/1.png"])
    for i in range(0, 20, 2):
        (place / "cat" / f"{i:02d}.png").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"(?s)10 of 21 images.*00.png.*02.png.*… and 2 more") as error:
        build(ImageSource(place), tmp_path / "s")
    assert error.value.hint == "data.bad=drop leaves them out"
    store = build(ImageSource(place), tmp_path / "s", bad="drop")
    assert (len(store), store.header.dropped) == (11, 10)


def test_sizes_are_alike_or_asked_for(tmp_path):
    place = folder(tmp_path / "photos")
    (place / "dog" / "9.png").write_bytes(png(9, size=(12, 9)))
    with pytest.raises(DataError, match=r"9.png: is 12 × 9, and .*1.png is 6 × 5") as error:
        build(ImageSource(place), tmp_path / "s")
    assert "data.size=224" in error.value.hint
    assert build(ImageSource(place), tmp_path / "s", size=(4, 8)).size == (4, 8)


def test_a_store_is_found_again_and_noticed_when_cut(tmp_path):
    source = ImageSource(folder(tmp_path / "photos"))
    n_built = 0

    def build_once(where):
        nonlocal n_built
        n_built += 1
        return ImageStore.build(source.examples(), where, fingerprint="key" * 20)

    for _ in range(2):
        store = ImageStore.cached("key" * 20, tmp_path / "made", build=build_once)
    assert n_built == 1
    with open(store.folder / "images.pixels", "r+b") as file:
        file.truncate(10)
    with pytest.raises(DataError, match="is not whole"):
        ImageStore.open(store.folder)
    assert len(ImageStore.cached("key" * 20, tmp_path / "made", build=build_once)) == 3
    assert n_built == 2
    (store.folder / "images.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        ImageStore.open(store.folder)


def test_fingerprints_follow_what_is_there(tmp_path):
    place = folder(tmp_path / "photos")
    before = ImageSource(place).fingerprint()
    assert ImageSource(place).fingerprint() == before
    (place / "dog" / "4.png").write_bytes(png(4))
    assert ImageSource(place).fingerprint() != before
    table = tmp_path / "a.csv"
    table.write_text("image,label\nphotos/cat/1.png,x\n")
    before = ImageSource(table).fingerprint()
    (place / "cat" / "1.png").write_bytes(png(7, size=(9, 9)))
    assert ImageSource(table).fingerprint() != before
