"""Products of a row or two with a matrix equal PyTorch's, on Triton's interpreter or a GPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

thin = pytest.importorskip("regard.layers.thin", reason="Triton is not installed: it is part of the dev extra on Linux")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(7, 3), (512, 8), (700, 13)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_thin_products(n_inputs, n_outputs, biased, dtype):
    linear = nn.Linear(n_inputs, n_outputs, bias=biased).to(DEVICE, dtype)
    hidden = torch.randn(2, 1, 2 * n_inputs, device=DEVICE, dtype=dtype)[..., ::2]  # not together in memory
    with torch.no_grad():
        expected = linear(hidden.contiguous())
        found = thin.thin_linear(hidden, linear.weight, linear.bias)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def test_only_few_rows_go_this_way(monkeypatch):
    calls = []
    monkeypatch.setattr(thin, "thin_linear", lambda *args: calls.append(len(args)) or F.linear(*args))
    linear, tied = nn.Linear(8, 4).to(DEVICE), torch.randn(5, 8, device=DEVICE)
    rows = torch.randn(3, 1, 8, device=DEVICE)
    with torch.no_grad(), thin.ThinProducts(most=2):
        linear(rows)
        linear(rows.double().float())
        assert calls == []
        assert linear(rows[:2]).shape == (2, 1, 4)
        assert F.linear(rows[:1], tied).shape == (1, 1, 5)
        assert calls == [3, 3]
        F.linear(rows[:1].double(), tied.double())
        F.linear(rows[:1], tied.T.contiguous().T)
        with torch.autocast(DEVICE.type, torch.bfloat16):
            linear(rows[:1])
    linear(rows[:1])
    assert calls == [3, 3]
