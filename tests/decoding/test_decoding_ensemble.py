"""Several models as one, and the scoring of given sequences."""

import math
from typing import Any

import pytest
import torch

from regard.decoding import DecodeOptions, EnsembleStepper, decode, force_decode
from regard.errors import ShapeError, UsageError
from stub_steppers import BOS, EOS, PAD, HistoryStepper, MarkovStepper

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
BEAM = DecodeOptions(strategy="beam", beam=3, n_best=3, max_length=15)


def tables(seed: int, n_tokens: int = 7) -> torch.Tensor:
    return torch.randn(3, n_tokens, n_tokens, generator=torch.Generator().manual_seed(seed))


def test_probabilities_are_averaged() -> None:
    one, other = tables(0), tables(1)
    logits = EnsembleStepper([MarkovStepper(one), MarkovStepper(other)]).step(torch.tensor([0, 1, 2]))
    rows = torch.arange(3)
    expected = (one[rows, rows].softmax(-1) + other[rows, rows].softmax(-1)) / 2
    assert torch.allclose(logits.softmax(-1), expected, atol=1e-6)
    assert torch.allclose(logits.exp(), expected, atol=1e-6)


def test_log_probabilities_are_averaged() -> None:
    one, other = tables(0), tables(1)
    logits = EnsembleStepper([MarkovStepper(one), MarkovStepper(other)], "product").step(torch.tensor([0, 1, 2]))
    rows = torch.arange(3)
    expected = (one[rows, rows].log_softmax(-1) + other[rows, rows].log_softmax(-1)) / 2
    assert torch.allclose(logits, expected, atol=1e-6)


@pytest.mark.parametrize("combine", ["mean", "product"])
def test_a_model_with_itself_is_itself(combine: Any) -> None:
    sources = [1, 2, 3]
    alone = decode(HistoryStepper(sources), n_rows=3, options=BEAM, **IDS)
    twins = decode(
        EnsembleStepper([HistoryStepper(sources), HistoryStepper(sources)], combine),
        n_rows=3,
        options=BEAM,
        **IDS,
    )
    for row, other in zip(alone, twins, strict=True):
        assert [one.tokens for one in row] == [one.tokens for one in other]
        assert [one.score for one in row] == pytest.approx([one.score for one in other], abs=1e-5)


def test_an_ensemble_keeps_its_models_in_step() -> None:
    """Log-probabilities of a beam of two different models equal those of the same ensemble forced along."""

    def pair(rows: slice) -> EnsembleStepper:
        return EnsembleStepper([MarkovStepper(tables(0)[rows]), MarkovStepper(tables(1)[rows])])

    found = decode(pair(slice(0, 3)), n_rows=3, options=BEAM, **IDS)
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            eos = EOS if one.finished else None
            [terms] = force_decode(pair(slice(row, row + 1)), [one.tokens], bos_id=BOS, eos_id=eos, pad_id=PAD)
            assert one.token_log_probs == pytest.approx(terms, abs=1e-5)


def test_different_vocabularies_are_refused() -> None:
    ensemble = EnsembleStepper([MarkovStepper(tables(0)), MarkovStepper(tables(0, 9))])
    with pytest.raises(ShapeError, match="stepper 1 of the ensemble has a vocabulary of 9 tokens and stepper 0 has 7"):
        ensemble.step(torch.tensor([0, 1, 2]))


def test_wrong_ensembles_are_refused() -> None:
    with pytest.raises(UsageError, match="an ensemble of 0 steppers was given; allowed is 1 or more"):
        EnsembleStepper([])
    with pytest.raises(UsageError, match="combine is 'median'; allowed are 'mean', 'product'"):
        EnsembleStepper([MarkovStepper(tables(0))], "median")  # type: ignore[arg-type]


def test_attention_is_averaged_where_all_have_it() -> None:
    steppers = [HistoryStepper([1, 2]), HistoryStepper([3, 4])]
    ensemble = EnsembleStepper(steppers)
    ensemble.step(torch.tensor([0, 0]))
    average = (steppers[0].attention() + steppers[1].attention()) / 2
    weights = ensemble.attention()
    assert weights is not None
    assert torch.allclose(weights, average)
    assert EnsembleStepper([HistoryStepper([1]), MarkovStepper(tables(0)[:1])]).attention() is None


def test_forced_terms_are_table_entries() -> None:
    table = tables(5)[:2]
    terms = force_decode(MarkovStepper(table), [[3, 4], [5]], bos_id=BOS, eos_id=EOS, pad_id=PAD)
    log_probs = table.log_softmax(-1)
    assert terms[0] == pytest.approx(
        [log_probs[0, BOS, 3].item(), log_probs[0, 3, 4].item(), log_probs[0, 4, EOS].item()]
    )
    assert terms[1] == pytest.approx([log_probs[1, BOS, 5].item(), log_probs[1, 5, EOS].item()])


def test_forced_rows_leave_when_they_end() -> None:
    stepper = HistoryStepper([1, 2, 3])
    targets = [[3, 4, 5, 6], [], [7]]
    terms = force_decode(stepper, targets, bos_id=BOS, eos_id=EOS, pad_id=PAD)
    assert stepper.steps == [3, 2, 1, 1, 1]
    for row, target in enumerate(targets):
        assert terms[row] == pytest.approx(force_decode(HistoryStepper([row + 1]), [target], **IDS)[0], abs=1e-6)


def test_all_sequences_together_are_certain() -> None:
    table = tables(2, 3)[:1]
    ends = [[], [0], [2], [0, 0], [0, 2], [2, 0], [2, 2]]
    total = sum(math.exp(sum(force_decode(MarkovStepper(table), [end], **IDS)[0])) for end in ends)
    cut = [[a, b, c] for a in (0, 2) for b in (0, 2) for c in (0, 2)]
    rest = sum(
        math.exp(sum(force_decode(MarkovStepper(table), [one], bos_id=BOS, eos_id=None, pad_id=PAD)[0])) for one in cut
    )
    assert total + rest == pytest.approx(1.0, abs=1e-5)


def test_nothing_to_force() -> None:
    stepper = MarkovStepper(tables(0)[:2])
    assert force_decode(stepper, [[], []], bos_id=BOS, eos_id=None, pad_id=PAD) == [[], []]
    assert stepper.steps == []


def test_unknown_targets_are_named() -> None:
    with pytest.raises(UsageError, match="targets hold 7 and the model knows 7 tokens; allowed is 0 to 6"):
        force_decode(MarkovStepper(tables(0)[:1]), [[7]], **IDS)
    with pytest.raises(UsageError, match="targets hold -3 and"):
        force_decode(MarkovStepper(tables(0)[:1]), [[-3]], **IDS)
