"""The kernel for short documents equals the padded way, values and gradients, on Triton's interpreter or a GPU."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: it is part of the dev extra on Linux")


ON_GPU = torch.cuda.is_available()
pytestmark = pytest.mark.gpu


def both_ways(lengths, key_lengths, *, causal, width=16, heads=2):
    from regard.attention import Documents
    from regard.fast.gpu.varlen import _padded, _starts
    from regard.fast.gpu.varlen_kernels import varlen_attention

    device = torch.device("cuda" if ON_GPU else "cpu")
    lengths, key_lengths = torch.tensor(lengths, device=device), torch.tensor(key_lengths, device=device)
    query = torch.randn(int(lengths.sum()), heads, width, device=device)
    # Slices of a joint projection, as models have them: rows lie apart in memory.
    key, value = torch.randn(int(key_lengths.sum()), 2 * heads * width, device=device).chunk(2, -1)
    inputs = [query, key.view(-1, heads, width), value.view(-1, heads, width)]
    longest = int(max(lengths.max(), key_lengths.max()))
    documents = Documents(lengths, key_lengths, longest=longest)
    results = []
    for way in ("padded", "short"):
        leaves = [x.detach().requires_grad_() for x in inputs]
        if way == "padded":
            output = _padded(*leaves, documents=documents, causal=causal, scale=0.3, dropout=0.0)
        else:
            starts = _starts(lengths, device), _starts(key_lengths, device)
            output = varlen_attention(*leaves, *starts, longest, 0.3, causal)
        torch.manual_seed(1)
        results.append((output, *torch.autograd.grad(output, leaves, torch.randn_like(output))))
    return zip(*results, strict=True)


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(causal):
    lengths = [5, 1, 17, 9]
    for expected, found in both_ways(lengths, lengths, causal=causal):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_cross_attention_with_empty_documents():
    ways = list(both_ways([4, 0, 6, 3], [7, 2, 0, 20], causal=False))
    for expected, found in ways:
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert ways[0][1][4:10].abs().max() == 0, "a document without keys gives zeros"


def test_documents_of_all_sizes_of_block():
    lengths, key_lengths = [5, 33, 32, 64, 70, 128, 1, 65], [40, 3, 32, 64, 2, 100, 128, 0]
    for expected, found in both_ways(lengths, key_lengths, causal=False):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    for expected, found in both_ways(lengths, lengths, causal=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
