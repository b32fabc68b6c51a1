"""Language models that look back only: what they promise in training and in writing, in every variant."""

from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import Rows, Stretch, watch
from regard.decoding import DecodeOptions, decode
from regard.errors import ConfigError, ShapeError, UsageError
from regard.models.flops import count_parameters
from regard.models.gpt import GPT, SIZES, GPTConfig
from regard.models.interfaces.text import LanguageModel, Seq2SeqStepper, offers
from regard.models.registry import build, configure

V = 23
VARIANTS = {
    "gpt1": {"order": "post"},
    "gpt2": {},
    "llama": {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True, "n_kv_heads": 2, "d_head": 6,
              "attention_bias": False, "feedforward_bias": False, "tied": False, "d_feedforward": 20},
    "stretched": {"positions": "rotary", "rotary_base": 500.0, "rotary_stretch": Stretch(factor=2.0, n_trained=8)},
    "sinusoidal": {"positions": "sinusoidal", "norm_bias": False, "n_kv_heads": 1},
}  # fmt: skip
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def config_of(variant="gpt2", **options):
    tiny = {"n_tokens": V, "d_model": 16, "n_heads": 4, "n_layers": 3, "n_positions": 24, "dropout": 0.0}
    return GPTConfig(**{**tiny, **VARIANTS[variant], **options})


def make(variant="gpt2", **options):
    """In double precision, with random biases and norms: they start as zeros and ones, which hides mistakes."""
    model = GPT(config_of(variant, **options)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def ragged(*lengths):
    return Rows(torch.randint(1, V, (len(lengths), max(lengths))), torch.tensor(lengths))


def last_tokens(rows):
    return rows.ids.gather(1, rows.lengths[:, None] - 1)[:, 0]


def continued(model, rows, n_tokens, strategy="greedy", **options):
    """The tokens each row goes on with."""
    stepper = model.start(rows, capacity=n_tokens)
    found = decode(
        stepper,
        n_rows=len(rows.ids),
        bos_id=last_tokens(rows),
        eos_id=V - 1,
        pad_id=0,
        options=DecodeOptions(strategy=strategy, max_length=n_tokens, **options),
    )
    return [list(row[0].tokens) for row in found]


@every_variant
def test_interface(variant):
    model, ids = make(variant), torch.randint(1, V, (2, 5))
    assert offers(model, LanguageModel)
    assert isinstance(model.start(ids), Seq2SeqStepper)
    assert model(ids).shape == (2, 5, V)
    assert torch.equal(model.unembed(model.hidden(ids)), model(ids))
    assert torch.equal(F.linear(model.hidden(ids), model.output_weight), model(ids))
    assert model.output_bias is None
    assert torch.equal(model.encode(ids), model.hidden(ids))


@every_variant
def test_the_future_changes_no_bit_of_the_past(variant):
    model, ids = make(variant), torch.randint(1, V, (2, 9))
    changed = ids.clone()
    changed[:, 6:] = (ids[:, 6:] + 1) % V
    before, after = model(ids), model(changed)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:])


@every_variant
def test_every_parameter_gets_a_gradient(variant):
    model, ids = make(variant).train(), torch.randint(1, V, (4, 8))
    F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # Keys share their bias, and what all keys share no softmax sees: that part alone has no gradient.
        assert parameter.grad.abs().max() > 1e-9, name


@every_variant
def test_padded_rows_equal_their_runs_alone_and_packed_ones_too(variant):
    model, rows = make(variant), ragged(7, 1, 4)
    logits = model(rows)
    alone = [model(ids[None, :length])[0] for ids, length in zip(rows.ids, rows.lengths.tolist(), strict=True)]
    for row, single in zip(logits, alone, strict=True):
        torch.testing.assert_close(row[: len(single)], single, rtol=0, atol=1e-5)
    real = torch.arange(7) < rows.lengths[:, None]
    packed = Rows.packed(rows.ids[real], rows.lengths, longest=7)
    torch.testing.assert_close(model(packed)[0], torch.cat(alone), rtol=0, atol=1e-5)


@every_variant
def test_one_token_at_a_time_equals_all_at_once(variant):
    model, ids = make(variant), torch.randint(1, V, (3, 12))
    full = model(ids)
    for n_prompt in (1, 5):
        stepper = model.start(ids[:, :n_prompt], capacity=3)  # less than is needed: it grows
        steps = torch.stack([stepper.step(ids[:, i]) for i in range(n_prompt - 1, 12)], 1)
        torch.testing.assert_close(steps, full[:, n_prompt - 1 :], rtol=0, atol=1e-5)


@every_variant
@pytest.mark.parametrize("lengths", [(7, 3, 1, 5), (1, 1, 2), (4, 4)], ids=str)
def test_prompts_of_different_lengths_do_not_disturb_each_other(variant, lengths):
    model, rows = make(variant), ragged(*lengths)
    more = torch.randint(1, V, (len(lengths), 4))
    stepper, tokens = model.start(rows, capacity=5), last_tokens(rows)
    for i in range(5):
        logits = stepper.step(tokens)
        for row, length in enumerate(lengths):
            text = torch.cat((rows.ids[row, :length], more[row, :i]))[None]
            torch.testing.assert_close(logits[row], model(text)[0, -1], rtol=0, atol=1e-5)
        tokens = more[:, i] if i < 4 else tokens


@every_variant
def test_rows_leave_repeat_and_change_places(variant):
    model, rows = make(variant), ragged(6, 2, 4)
    stepper = model.start(rows)
    first = stepper.step(last_tokens(rows)).argmax(-1)
    order = torch.tensor([2, 1, 1])
    stepper.select(order, same_source=False)
    second = stepper.step(first[order])
    for place, row in enumerate(order.tolist()):
        text = torch.cat((rows.ids[row, : int(rows.lengths[row])], first[row : row + 1]))[None]
        torch.testing.assert_close(second[place], model(text)[0, -1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("strategy", ["greedy", "beam"])
@every_variant
def test_a_row_is_continued_alike_in_any_batch(variant, strategy):
    model, rows = make(variant), ragged(9, 2, 1, 5)
    options = {"beam": 3} if strategy == "beam" else {}
    together = continued(model, rows, 8, strategy, **options)
    for row, length in enumerate(rows.lengths.tolist()):
        alone = Rows(rows.ids[row : row + 1, :length], rows.lengths[row : row + 1])
        assert continued(model, alone, 8, strategy, **options) == [together[row]]
    ids = rows.ids[:1]
    for _ in range(8) if strategy == "greedy" else ():
        ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
    assert strategy == "beam" or ids[0, 9 : 9 + len(together[0])].tolist() == together[0]


def test_padding_content_is_irrelevant():
    model, rows = make(), ragged(6, 2)
    filled = Rows(torch.where(torch.arange(6) < rows.lengths[:, None], rows.ids, V - 1), rows.lengths)
    assert torch.equal(model(rows)[1, :2], model(filled)[1, :2])
    assert torch.equal(model.start(rows).step(last_tokens(rows)), model.start(filled).step(last_tokens(rows)))


def test_watched_steps_show_how_they_looked_at_their_prompt():
    model, rows = make("llama"), ragged(5, 2)
    stepper = model.start(rows, watched=True)
    stepper.step(last_tokens(rows))
    weights = stepper.attention()
    with watch(model) as seen:
        model(rows)
    for row, length in enumerate((5, 2)):
        maps = torch.stack([sight.weights[row, :, length - 1].mean(0) for sight in seen]).mean(0)  # layers, heads
        torch.testing.assert_close(weights[row], maps, rtol=0, atol=1e-5)
    assert weights[1, 2:].tolist() == [0.0, 0.0, 0.0]
    stepper.step(torch.tensor([3, 3]))
    assert stepper.attention().shape == (2, 5)
    assert (stepper.attention().sum(-1) < 1).all()
    assert make().start(rows).attention() is None


def test_learned_positions_end_with_one_clear_error():
    model, rows = make(n_positions=8), ragged(6, 2)
    with pytest.raises(ShapeError, match="9 positions are more than the 8 learned ones"):
        model.start(torch.ones(1, 9, dtype=torch.long))
    stepper, tokens = model.start(rows), last_tokens(rows)
    for _ in range(3):
        tokens = stepper.step(tokens).argmax(-1).clamp(min=1)
    with pytest.raises(UsageError, match="a text of 9 tokens was begun, and the model has 8 learned positions") as info:
        stepper.step(tokens)
    assert "at most 8 together" in info.value.hint
    assert model.position_limit == 8
    assert make("llama", n_positions=8).position_limit is None
    # The long row is done and fed padding until it leaves: the short one has room for four more.
    whole = make(n_positions=8).start(rows)
    whole.step(last_tokens(rows))
    for token in (3, 4, 5, 6, 7):
        logits = whole.step(torch.tensor([0, token]))
    text = torch.cat((rows.ids[1, :2], torch.arange(3, 8)))[None]
    torch.testing.assert_close(logits[1], whole.model(text)[0, -1])


def test_positions_without_limit_go_on():
    for variant in ("llama", "sinusoidal"):
        model, rows = make(variant, n_positions=4), ragged(6, 3)
        stepper, tokens = model.start(rows), last_tokens(rows)
        texts = [rows.ids[0, :6], rows.ids[1, :3]]
        for _ in range(3):
            logits = stepper.step(tokens)
            tokens = logits.argmax(-1)
            for row, text in enumerate(texts):
                torch.testing.assert_close(logits[row], model(text[None])[0, -1], rtol=0, atol=1e-5)
            texts = [torch.cat((text, token[None])) for text, token in zip(texts, tokens, strict=True)]


def test_starts_like_gpt2():
    model = GPT(GPTConfig(n_tokens=500, d_model=64, n_heads=4, n_layers=8))
    block = model.stack.blocks[3]
    for weight in (model.embedding.weight, block.attention.query_key_value.weight, block.feedforward.inner.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    for weight in (block.attention.out.weight, block.feedforward.outer.weight):
        assert weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert block.attention.out.bias.abs().max() == 0


def test_dropouts_act_where_they_say():
    ids = torch.randint(1, V, (2, 6))
    for name in ("dropout", "attention_dropout", "embedding_dropout"):
        model = GPT(config_of(**{name: 0.5})).train()
        assert not torch.equal(model.hidden(ids), model.hidden(ids)), name
        model.eval()
        assert torch.equal(model.hidden(ids), model.hidden(ids)), name
    assert GPT(config_of(dropout=0.3)).dropout.p == 0.3
    assert GPT(config_of(dropout=0.3, embedding_dropout=0.0)).dropout.p == 0.0


def test_named_sizes_have_the_published_numbers_of_parameters():
    counted = {}
    for size, n_tokens in (("gpt1", 40478), ("gpt2", 50257), ("gpt2-medium", 50257)):
        with torch.device("meta"):
            counted[size] = count_parameters(build("gpt", {"size": size, "n_tokens": n_tokens}))
    assert counted == {"gpt1": 116_534_784, "gpt2": 124_439_808, "gpt2-medium": 354_823_168}
    for size in SIZES:
        assert configure("gpt", size, n_tokens=9).n_tokens == 9


@every_variant
def test_config_survives_the_registry(variant):
    config = config_of(variant)
    assert build("gpt", asdict(config)).config == config


def test_compiles_in_one_piece():
    model, ids = make("llama"), torch.randint(1, V, (2, 6))
    whole = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(ids), model(ids))
    packed = Rows.packed(ids.flatten(), torch.tensor([7, 5]), longest=8)
    torch.testing.assert_close(whole(packed), model(packed))


def test_under_autocast_all_states_between_blocks_are_half_and_gradients_are_not():
    model, ids = make().float(), torch.randint(1, V, (2, 6))
    seen = []
    for block in model.stack.blocks:
        block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.hidden(ids)
    assert {hidden.dtype, *seen} == {torch.bfloat16}
    hidden.float().sum().backward()
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}
    assert model.hidden(ids).dtype == torch.float32, "and nothing changes without it"


def test_refusals():
    with pytest.raises(ConfigError, match="n_tokens is 0, at least 1"):
        GPT(GPTConfig())
    with pytest.raises(ConfigError, match="positions is 'none'; allowed: learned, rotary, sinusoidal"):
        GPT(config_of(positions="none"))
    model, ids = make(), torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(UsageError, match="a GPT has no embeddings for them") as info:
        model.encode(ids, segments=ids)
    assert "separating token" in info.value.hint
    with pytest.raises(ShapeError, match="not a packed row"):
        model.start(Rows.packed(ids, torch.tensor([2, 4]), longest=4))
    with pytest.raises(ShapeError, match="lengths are 0 to 3; allowed are 1 to 3") as info:
        model.start(Rows(ids, torch.tensor([0, 3])))
    assert "begins a text" in info.value.hint
