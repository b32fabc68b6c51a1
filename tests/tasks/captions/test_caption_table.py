"""Tables of captions and the images they name: what is read, and what is said about mistakes."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

import tiny_captions
from regard.data.images.captions import CaptionSource, hold_pictures, without_punctuation
from regard.data.synthetic.shapes import SIDE
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.captions.config import CaptionData

FLICKR = "a.jpg#0\tA dog .\na.jpg#1\tThe dog runs .\nb.jpg#0\tA cat .\nc.jpg#0\tA bird ,  flying .\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_every_format_gives_the_same(tmp_path, format):
    found = CaptionSource(tiny_captions.write_folder(tmp_path, format=format)).examples()
    assert len(found) == 32
    assert found[0].image == "pictures/red-red-0.png"
    assert found[0].captions == ("A red half and a red half .", "red left , red right")
    assert [example.line for example in found[:2]] == ([1, 3] if format == "jsonl" else [2, 4])


def test_flickrs_layout_is_known_by_its_first_line_also_when_zipped(tmp_path):
    (tmp_path / "token.txt.gz").write_bytes(gzip.compress(FLICKR.encode()))
    source = CaptionSource(tmp_path / "token.txt.gz")
    assert source.resolved_format == "flickr"
    assert [(e.image, e.captions) for e in source.examples()] == [
        ("a.jpg", ("A dog .", "The dog runs .")),
        ("b.jpg", ("A cat .",)),
        ("c.jpg", ("A bird , flying .",)),
    ]


def test_a_list_chooses_images_and_their_order(tmp_path):
    table, only = write(tmp_path / "token.txt", FLICKR), write(tmp_path / "dev.txt", "c.jpg\n\na.jpg\n")
    assert [e.image for e in CaptionSource(table, only).examples()] == ["c.jpg", "a.jpg"]
    write(only, "a.jpg\nz.jpg\n")
    with pytest.raises(DataError, match=r"dev\.txt:2: z\.jpg has no caption in .*token\.txt"):
        CaptionSource(table, only).examples()


def test_a_comma_separated_text_file_and_other_columns(tmp_path):
    kaggle = write(tmp_path / "captions.txt", "image,caption\na.jpg,a dog\n")
    assert CaptionSource(kaggle).examples()[0].captions == ("a dog",)
    other = write(tmp_path / "other.csv", "file,text\na.jpg,a dog\n")
    assert CaptionSource(other, image="file", caption="text").examples()[0].image == "a.jpg"


def test_a_folder_holds_its_table(tmp_path):
    table = tiny_captions.write_folder(tmp_path)
    assert CaptionSource(tmp_path).table == table
    write(tmp_path / "notes.tsv", "x\ty\n")
    assert CaptionSource(tmp_path).table == table  # it is called captions
    table.rename(tmp_path / "text.csv")
    with pytest.raises(DataError, match=r"one table of captions .* there is 2: notes.tsv, text.csv") as error:
        CaptionSource(tmp_path).examples()
    assert "captions.csv" in error.value.hint
    with pytest.raises(DataError, match="there is none"):
        CaptionSource(tmp_path / "pictures").examples()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,caption\na.jpg,a dog\nb.jpg,\n", r"t\.csv:3: the caption is empty"),
        ("image,caption\n,a dog\n", r"t\.csv:2: the image is empty"),
        ("a,b,c\na.jpg,a dog,x\n", r"t\.csv:1: no column looks like the image or the caption; it has: a, b, c"),
        ("image,caption\n", "is empty"),
        ("", "is empty"),
        ("image,caption\na.jpg\n", r"t\.csv:2: has 1 column"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        CaptionSource(write(tmp_path / "t.csv", text)).examples()


def test_rows_can_be_left_out_and_that_is_said(tmp_path):
    source, said = CaptionSource(write(tmp_path / "t.csv", "image,caption\na.jpg,a dog\nb.jpg,\n")), []
    assert [e.image for e in source.examples(bad="drop", say=said.append)] == ["a.jpg"]
    assert "1 rows left out" in said[0]
    assert "t.csv:3" in said[0]
    with pytest.raises(UsageError, match="format 'xml' is not known"):
        CaptionSource("t.xml", format="xml")
    with pytest.raises(DataError, match=r"t\.txt:2: not a row of Flickr8k's captions"):
        CaptionSource(write(tmp_path / "t.txt", "a.jpg#0\ta dog\nb.jpg a cat\n")).examples()


def hold(source, place, tmp_path, **options):
    return hold_pictures(source, place, size=8, folder=tmp_path / "made", **options)


def test_images_of_a_folder_in_the_order_of_the_table(tmp_path):
    source = CaptionSource(tiny_captions.write_folder(tmp_path))
    held = hold_pictures(source, tmp_path, size=16, folder=tmp_path / "made")
    assert held.pixels.shape == (32, 3, 16, 16)
    assert [e.image for e in held.examples] == [e.image for e in source.examples()]
    np.testing.assert_array_equal(held.pixels[3], tiny_captions.halves("red", "white").transpose(2, 0, 1))


def archive(path, names):
    """Images in an archive, each in a folder; the colour is the number of its name."""
    files = {}
    for number, name in enumerate(names):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (number * 20, 0, 0)).save(file, "PNG")
        files[f"images_80/{name}"] = file.getvalue()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as made:
            for name, content in files.items():
                made.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["images.tar.gz", "images.zip"])
def test_images_out_of_an_archive(tmp_path, name):
    table = write(tmp_path / "token.txt", FLICKR)
    held = hold(CaptionSource(table), archive(tmp_path / name, ["c.jpg", "x.jpg", "a.jpg", "b.jpg"]), tmp_path)
    assert {e.image: int(held.pixels[i, 0, 0, 0]) for i, e in enumerate(held.examples)} == {
        "a.jpg": 40,
        "b.jpg": 60,
        "c.jpg": 0,
    }
    full = write(tmp_path / "full.csv", "image,caption\nimages_80/b.jpg,a cat\n")
    assert int(hold(CaptionSource(full), tmp_path / name, tmp_path).pixels[0, 0, 0, 0]) == 60


def test_images_of_one_name_in_different_folders_are_told_apart(tmp_path):
    made = archive(tmp_path / "i.zip", ["cats/1.jpg", "dogs/1.jpg"])
    table = write(tmp_path / "t.csv", "image,caption\ndogs/1.jpg,a dog\ncats/1.jpg,a cat\n")
    held = hold(CaptionSource(table), made, tmp_path)
    shown = {e.image: int(held.pixels[i, 0, 0, 0]) for i, e in enumerate(held.examples)}
    assert shown == {"cats/1.jpg": 0, "dogs/1.jpg": 20}


def test_missing_and_corrupt_images_are_named_with_their_row(tmp_path):
    table = tiny_captions.write_folder(tmp_path, copies=1)
    (tmp_path / "pictures" / "red-blue-0.png").unlink()
    (tmp_path / "pictures" / "blue-red-0.png").write_bytes(b"no image")
    with pytest.raises(DataError) as error:
        hold(CaptionSource(table), tmp_path, tmp_path)
    assert "captions.csv:6" in str(error.value)
    assert "red-blue-0.png: there is no such image" in str(error.value)
    assert "captions.csv:18" in str(error.value)
    assert "blue-red-0.png: not an image that can be read" in str(error.value)
    said = []
    held = hold(CaptionSource(table), tmp_path, tmp_path, bad="drop", say=said.append)
    assert len(held) == 14
    assert "pictures/red-blue-0.png" not in [e.image for e in held.examples]
    assert any("2 of 16 images left out" in line for line in said)


def test_an_image_that_the_archive_lacks_is_named_with_its_row(tmp_path):
    table = write(tmp_path / "token.txt", FLICKR)
    with pytest.raises(DataError, match=r"token\.txt:3: .*b\.jpg: there is no such image"):
        hold(CaptionSource(table), archive(tmp_path / "i.zip", ["a.jpg", "c.jpg"]), tmp_path)
    with pytest.raises(DataError, match="neither a folder nor an archive"):
        hold(CaptionSource(table), tmp_path / "nowhere", tmp_path)


def test_what_was_decoded_is_found_again_until_an_image_changes(tmp_path, monkeypatch):
    source = CaptionSource(tiny_captions.write_folder(tmp_path, copies=1))
    first = hold(source, tmp_path, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("regard.data.images.store.pixels_of", None)
        np.testing.assert_array_equal(hold(source, tmp_path, tmp_path).pixels, first.pixels)
    Image.new("RGB", (20, 20)).save(tmp_path / "pictures" / "red-red-0.png")
    assert hold(source, tmp_path, tmp_path).pixels[0].max() == 0


def test_words_alone():
    assert without_punctuation('A "red" ball -- and a well-known dog , isn\'t it ?') == (
        "A red ball and a well-known dog isn't it"
    )


def test_drawn_shapes_have_one_size():
    CaptionData(synthetic="shapes", image_size=SIDE).check()
    CaptionData(image_size=SIDE + 1).check(built=False)
    with pytest.raises(ConfigError, match=f"data.image_size is {SIDE + 1}, and synthetic shapes are drawn on {SIDE}"):
        CaptionData(synthetic="shapes", image_size=SIDE + 1).check()
