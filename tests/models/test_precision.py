"""What predictions are computed in where nothing faster stands in, and what is refused."""

import pytest
import torch
from torch import nn

from regard.errors import UsageError
from regard.models import precision
from regard.models.precision import in_precision


@pytest.fixture(autouse=True)
def textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "twin", lambda place: None)


def test_half_precision_is_a_copy_and_the_rest_is_the_model_itself() -> None:
    model = nn.Linear(3, 2)
    assert in_precision(model, "auto") is in_precision(model, "fp32") is model
    half = in_precision(model, "bf16")
    assert {tensor.dtype for tensor in half.parameters()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    torch.testing.assert_close(next(half.parameters()).float(), model.weight, rtol=2**-8, atol=0)


@pytest.mark.parametrize(
    ("device", "asked", "message", "hint"),
    [
        ("cpu", "int8", "precision int8 needs regard.fast", "unset REGARD_FAST"),
        ("meta", "int8", "precision int8 is for the CPU", "use bf16 on a GPU, or the device cpu"),
        ("cpu", "fp8", "precision is 'fp8'; allowed are auto, fp32, bf16, int8", None),
    ],
)
def test_what_is_refused(device: str, asked: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as error:
        in_precision(nn.Linear(3, 2, device=device), asked)
    assert (str(error.value), error.value.hint) == (message, hint)
