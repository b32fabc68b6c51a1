"""Captioning as something to train: batches, changed images, the parts of the loss."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tiny_captions
from regard.attention import Rows, watch
from regard.data.batching.plan import Position
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError
from regard.models.registry import build
from regard.tasks.captions.config import CaptionData
from regard.tasks.captions.data import CaptionFiles, Pictures
from regard.tasks.captions.loss import Weights, bag_loss, bag_of_words, caption_loss, unseen
from regard.tasks.captions.training import CaptionTraining, Gallery, Views, augment, caption_batch

SHAPE = {"image_size": 16, "widths": (4, 6, 8), "n_blocks": 1, "d_embedding": 10, "d_hidden": 12, "dropout": 0.0}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captions")
    tiny_captions.write_folder(folder)
    data = CaptionData(train=(str(folder),), image_size=16)
    return CaptionFiles(data, None, folder / "made").read().train


@pytest.fixture(scope="module")
def tokenizer(pictures):
    return learn_tokenizer([text for several in pictures.captions for text in several], "words", lowercase=True)


def training(pictures, tokenizer, **options):
    given = {"batch_images": 6, "seed": 1} | options
    return CaptionTraining(tokenizer, pictures, pictures.part(range(4)), CaptionData(image_size=16), **given)


def captioner(tokenizer, **options):
    torch.manual_seed(0)
    return build("captioner", SHAPE | {"n_target": len(tokenizer)} | options)


def test_a_share_of_the_images_is_held_out(pictures):
    assert len(pictures) == 29  # of 32, a tenth is kept back


def test_every_image_comes_once_an_epoch_with_all_its_captions(pictures, tokenizer):
    task = training(pictures, tokenizer)
    stream = task.batches(Position())
    epoch = [next(stream)[1] for _ in range(task.batches_an_epoch)]
    assert sorted(torch.cat([batch.images for batch in epoch]).tolist()) == list(range(29))
    first = epoch[0]
    assert len(first.target) == 2 * len(first.images)
    assert first.n_tokens == int((first.labels != tokenizer.pad_id).sum())
    i = int(first.images[1])
    said = [tokenizer.decode(row[row != tokenizer.pad_id]) for row in first.labels[2:4]]
    plain = [text.lower().replace(" .", "").replace(" ,", "") for text in pictures.captions[i]]
    assert said == plain
    assert (first.target[:, 0] == tokenizer.bos_id).all()
    assert torch.equal(first.target[:, 1:][first.labels[:, :-1] > 3], first.labels[:, :-1][first.labels[:, :-1] > 3])


def test_batches_go_on_where_they_stopped_and_are_shared_out(pictures, tokenizer):
    task = training(pictures, tokenizer, captions_each=1)
    stream = task.batches(Position())
    whole = [next(stream) for _ in range(8)]
    again = task.batches(whole[2][0])
    for (_, one), (_, other) in zip(whole[3:], again, strict=False):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.target, other.target)
    shares = [next(task.batches(Position(), rank=rank, world=2))[1].images for rank in range(2)]
    assert sorted(torch.cat(shares).tolist()) == sorted(whole[0][1].images.tolist())


def test_of_many_captions_some_are_drawn_anew_each_epoch(pictures, tokenizer):
    task = training(pictures, tokenizer, captions_each=1)
    drawn = {tuple(task.batch(np.array([3]), epoch=epoch).labels[0].tolist()) for epoch in range(12)}
    assert len(drawn) == 2
    assert len(task.batch(np.array([3, 4])).target) == 2


def test_an_image_with_fewer_captions_is_filled_up_with_nothing(tokenizer):
    batch = caption_batch(tokenizer, np.array([0, 1]), [[[5, 6], [7]], [[8]]])
    assert batch.labels.tolist() == [[5, 6, 3], [7, 3, 0], [8, 3, 0], [0, 0, 0]]
    assert batch.target.tolist() == [[2, 5, 6], [2, 7, 0], [2, 8, 0], [2, 0, 0]]
    assert batch.n_tokens == 7
    model, images = captioner(tokenizer).eval(), torch.rand(2, 3, 16, 16)
    weights = Weights(0.1, 0.5, 0.5)
    rows = Rows(batch.target, batch.lengths)
    whole = caption_loss(model, images, rows, batch.labels, weights=weights, pad_id=0)
    parts = [
        caption_loss(model, images[i : i + 1], Rows(batch.target[s], batch.lengths[s]), batch.labels[s],
                     weights=weights, pad_id=0)
        for i, s in ((0, slice(0, 2)), (1, slice(2, 3)))
    ]  # fmt: skip
    assert float(whole.total.detach()) == pytest.approx(sum(float(part.total.detach()) for part in parts), rel=1e-5)
    assert int(whole.n_tokens) == 7


def test_to_be_recorded_captions_have_few_lengths_and_lose_the_same(pictures, tokenizer):
    task = training(pictures, tokenizer)
    assert task.record()
    assert task.batch(np.arange(5)).target.shape[1] % 4 == 0
    captions = [[[5, 6], [7]], [[8, 5]]]
    before, after = (caption_batch(tokenizer, np.array([0, 1]), captions, multiple_of=n) for n in (1, 4))
    assert [batch.target.shape[1] for batch in (before, after)] == [3, 4]
    assert [batch.labels.shape[1] for batch in (before, after)] == [3, 4]
    assert before.n_tokens == after.n_tokens
    model, images = captioner(tokenizer).eval(), torch.rand(2, 3, 16, 16)
    losses = [
        caption_loss(model, images, Rows(batch.target, batch.lengths), batch.labels, weights=Weights(0.1, 0.5, 0.5),
                     pad_id=0)
        for batch in (before, after)
    ]  # fmt: skip
    for one, other in zip(*losses, strict=True):
        torch.testing.assert_close(one, other)


def test_captions_that_are_too_long_are_left_out(pictures, tokenizer):
    short = CaptionTraining(
        tokenizer, pictures, pictures.part(range(4)), CaptionData(image_size=16, max_tokens=4), batch_images=6, seed=1
    )
    assert short.left_out == 29
    assert all(len(several) == 1 for several in short.captions)
    with pytest.raises(DataError, match="no training caption has 1 to 3 words"):
        CaptionTraining(tokenizer, pictures, pictures, CaptionData(image_size=16, max_tokens=3), batch_images=6, seed=1)


def test_the_loss_is_cross_entropy_bag_of_words_and_what_was_not_seen(tokenizer):
    model = captioner(tokenizer).double().eval()
    batch = caption_batch(tokenizer, np.array([0]), [[[5, 6, 5], [7]]])
    images, rows = torch.rand(1, 3, 16, 16, dtype=torch.double), Rows(batch.target, batch.lengths)
    logits = model.unembed(model.tell(model.encode(images), rows))
    plain = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0, reduction="sum")

    def loss(**weights):
        losses = caption_loss(model, images, rows, batch.labels, weights=Weights(**weights), pad_id=0)
        return float(losses.total.detach())

    assert loss() == pytest.approx(float(plain))
    bag = torch.zeros(1, len(tokenizer))
    bag[0, [5, 6, 7]], bag[0, tokenizer.eos_id] = 1, 2  # a word twice in one caption counts once
    assert torch.equal(bag_of_words(batch.labels[None], len(tokenizer), pad_id=0), bag)
    words = float(-(bag * model.words(model.encode(images)).log_softmax(-1)).sum())
    assert loss(words=0.5) - loss() == pytest.approx(0.5 * words, rel=1e-5)
    assert words == pytest.approx(float(bag_loss(model.words(model.encode(images)), bag)), rel=1e-5)
    with watch(model) as seen:
        model.tell(model.encode(images), rows)
    looked = torch.stack([sight.weights[0, 0] for sight in seen], 1)  # (K, T, S)
    missed = (1 - looked[0, :4].sum(0)).square().sum() + (1 - looked[1, :2].sum(0)).square().sum()
    assert loss(doubly=2.0) - loss() == pytest.approx(2 * float(missed), rel=1e-5)
    assert float(unseen(seen, batch.labels != 0)) == pytest.approx(float(missed))


def test_looking_everywhere_teaches_the_attention(tokenizer):
    model = captioner(tokenizer)
    batch = caption_batch(tokenizer, np.array([0]), [[[5, 6, 5]]])
    images, rows = torch.rand(1, 3, 16, 16), Rows(batch.target, batch.lengths)

    def gradient(doubly):
        model.zero_grad()
        caption_loss(model, images, rows, batch.labels, weights=Weights(doubly=doubly), pad_id=0).total.backward()
        return model.attention.score.out.weight.grad.clone()

    assert not torch.allclose(gradient(0.0), gradient(5.0), rtol=0.01)


def test_images_are_changed_by_the_seed_alone_and_stay_images():
    images = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(augment(images, crop=1.0, flip=False, jitter=0.0), images / 255)
    torch.manual_seed(4)
    one = augment(images, crop=0.4, flip=True, jitter=0.3)
    torch.manual_seed(4)
    assert torch.equal(one, augment(images, crop=0.4, flip=True, jitter=0.3))
    assert not torch.equal(one, augment(images, crop=0.4, flip=True, jitter=0.3))
    assert one.shape == images.shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_views_are_those_of_single_precision_whatever_the_products_around_are_in():
    images = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    torch.manual_seed(4)
    plain = augment(images, crop=0.4, flip=True, jitter=0.3)
    torch.manual_seed(4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(augment(images, crop=0.4, flip=True, jitter=0.3), plain)


def test_mirrored_images_are_mirrored_and_crops_are_parts():
    images = torch.randint(0, 256, (40, 3, 8, 8), dtype=torch.uint8)
    mirrored = augment(images, crop=1.0, flip=True, jitter=0.0)
    same = [torch.allclose(a, b / 255, atol=1e-5) for a, b in zip(mirrored, images, strict=True)]
    turned = [torch.allclose(a, b.flip(-1) / 255, atol=1e-5) for a, b in zip(mirrored, images, strict=True)]
    assert all(a or b for a, b in zip(same, turned, strict=True))
    assert 5 < sum(turned) < 35
    ramp = torch.linspace(0, 255, 32).to(torch.uint8).expand(50, 3, 32, 32)
    spans = augment(ramp, crop=0.25, flip=False, jitter=0.0).amax((1, 2, 3)) - ramp[0, 0, 0, 0] / 255
    widths = [float(row.max() - row.min()) for row in augment(ramp, crop=0.25, flip=False, jitter=0.0)]
    assert min(widths) > 0.35  # of a side no less than the root of a quarter, stretched
    assert max(widths) <= 1
    assert float(spans.min()) < 0.9


def test_changed_light_keeps_the_shape_of_things():
    images = torch.randint(60, 200, (30, 3, 8, 8), dtype=torch.uint8)
    lit = augment(images, crop=1.0, flip=False, jitter=0.3)
    assert not torch.allclose(lit, images / 255, atol=0.01)
    for one, other in zip(lit, images / 255, strict=True):
        assert torch.corrcoef(torch.stack((one.mean(0).flatten(), other.mean(0).flatten())))[0, 1] > 0.95


def test_a_gallery_gives_images_by_number():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
    assert torch.equal(Gallery(pixels)(torch.tensor([4, 1])), torch.from_numpy(pixels[[4, 1]]))


def test_the_loss_sees_changed_images_and_evaluation_whole_ones(pictures, tokenizer):
    task = training(pictures, tokenizer, views=Views(crop=0.5, jitter=0.3))
    model = captioner(tokenizer).eval()
    batch = task.batch(np.arange(4))
    assert float(task.loss(model, batch).total) != float(task.loss(model, batch).total)
    figures = task.evaluate(model)
    assert figures == task.evaluate(model)
    assert set(figures) == {"valid_nll", "cider", "bleu1", "bleu4", "exact"}
    assert len(task.samples(model, 3)) == 3
    assert task.samples(model, 0) == []
    one = Pictures(pictures.pixels[:1], pictures.names[:1], pictures.captions[:1])
    alone = CaptionTraining(tokenizer, one, one, CaptionData(image_size=16), batch_images=6, seed=1)
    assert alone.evaluate(model)["valid_nll"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"name": "captioner"},
        {"name": "captioner", "attention": "none"},
        {"name": "transformer-captioner", "d_model": 24, "n_heads": 2, "d_feedforward": 32, "n_encoder_layers": 1,
         "n_decoder_layers": 1},
    ],
)  # fmt: skip
def test_a_few_images_are_learnt_by_heart(pictures, tokenizer, options):
    some = pictures.part([0, 5, 9, 14])
    one_caption = Pictures(some.pixels, some.names, [several[:1] for several in some.captions])
    task = CaptionTraining(tokenizer, one_caption, one_caption, CaptionData(image_size=16), batch_images=4, seed=1)
    shape = {
        key: value for key, value in SHAPE.items() if key not in ("d_embedding", "d_hidden") or "d_model" not in options
    }
    torch.manual_seed(1)
    model = build(
        options["name"],
        shape
        | {"n_target": len(tokenizer), "feature_dropout": 0.0}
        | {k: v for k, v in options.items() if k != "name"},
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    batch = task.batch(np.arange(4))
    for _ in range(70):
        losses = task.loss(model, batch)
        (losses.total / losses.n_tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    figures = task.evaluate(model.eval())
    assert figures["exact"] == 1
    assert figures["valid_nll"] < 0.2
