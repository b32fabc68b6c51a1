"""The vectors that a step begins with, on Triton's interpreter or a GPU."""

import pytest
import torch

from regard.fast.gpu.static_cache import StaticSlots

gemv = pytest.importorskip(
    "regard.fast.gpu.few_rows.gemv", reason="Triton is not installed: it is part of the dev extra on Linux"
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_token_where_it_stands(dtype):
    table, places = torch.randn(7, 12).to(DEVICE, dtype), torch.randn(5, 12).to(DEVICE, dtype)
    slots, tokens = StaticSlots(3, capacity=16, device=DEVICE), torch.tensor([6, 0, 3], device=DEVICE)
    slots.restart(torch.tensor([4, 0, 6], device=DEVICE))  # the last row stands beyond the last position
    tolerance = 2e-2 if dtype == torch.bfloat16 else 0  # the interpreter cuts bits off
    found = gemv.embed_step(tokens, slots, table=table, places=places)
    torch.testing.assert_close(found, table[tokens] + places[[4, 0, 4]], atol=tolerance, rtol=tolerance)
    assert torch.equal(gemv.embed_step(tokens, slots, table=table, places=None), table[tokens])
