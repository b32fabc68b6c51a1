import pytest
import torch
import torch.nn.functional as F

from regard.errors import ConfigError, ShapeError
from regard.models.word_vectors import WordVectors, WordVectorsConfig, start_embedding


def model_of(vectors):
    vectors = torch.tensor(vectors, dtype=torch.float32)
    model = WordVectors(WordVectorsConfig(n_tokens=len(vectors) + 2, d_model=vectors.shape[1]))
    with torch.no_grad():
        model.input[2:] = vectors
    return model


def test_scores_and_gradients():
    model = WordVectors(WordVectorsConfig(n_tokens=7, d_model=4))
    torch.nn.init.normal_(model.output)
    ids = torch.tensor([[2, 3], [6, 4]])
    scores = model(ids)
    assert scores.shape == (2, 2, 7)
    torch.testing.assert_close(scores[1, 0, 5], model.input[6] @ model.output[5])
    scores.square().sum().backward()
    assert model.input.grad[[2, 3, 4, 6]].abs().amin() > 0
    assert model.output.grad.abs().max() > 0
    assert (model.vectors[:2] == 0).all()


def test_the_nearest_are_by_angle_and_never_reserved():
    model = model_of([[1, 0], [5, 0.5], [0, 1], [-1, 0]])
    found = model.nearest(torch.tensor([2.0, 0.0]), 10, without=[2])
    assert [i for i, _ in found] == [3, 4, 5]
    assert found[0][1] == pytest.approx(
        float(F.cosine_similarity(torch.tensor([1.0, 0]), torch.tensor([5, 0.5]), dim=0))
    )
    assert found[-1][1] == pytest.approx(-1.0)
    with pytest.raises(ShapeError, match=r"shape \(3,\); vectors are \(2,\)"):
        model.nearest(torch.zeros(3), 1)


def test_an_analogy_is_a_parallelogram():
    # man, woman, king, queen, apple
    model = model_of([[1, 0, 0.2], [0, 1, 0.2], [1, 0, 1], [0, 1, 1], [0.1, 0.1, -1]])
    assert model.answer(torch.tensor([[2, 3, 4], [4, 5, 2]])).tolist() == [5, 3]
    assert model.nearest(model.combine([4, 3], [2]), 1, without=[2, 3, 4])[0][0] == 5
    assert model.answer(torch.zeros(0, 3, dtype=torch.int64)).shape == (0,)


def test_the_plane_keeps_the_largest_differences():
    model = model_of([[1, 0, 0], [-1, 0, 0], [0, 0.9, 0], [0, -0.9, 0]])
    places = model.principal([2, 3, 4, 5])
    assert places.shape == (4, 2)
    assert torch.dist(places[0], places[1]) == pytest.approx(2.0, rel=1e-5)
    assert model.principal([2]).tolist() == [[0.0, 0.0]]


def test_an_embedding_begins_at_vectors():
    weight = torch.nn.Parameter(torch.randn(5, 3) * 0.02)
    before = weight.detach().clone()
    vectors = torch.tensor([[1.0, 2, 3], [-4, 5, 6], [7, -8, 9]])
    n = start_embedding(weight, ["<s>", "▁cat", "dog", "▁Cow", "x"], ["cat", "cow", "bee"], vectors)
    assert n == 2
    assert torch.equal(weight[[0, 2, 4]], before[[0, 2, 4]])
    weight = weight.detach()
    assert F.cosine_similarity(weight[1], vectors[0], dim=0) == pytest.approx(1.0)
    assert F.cosine_similarity(weight[3], vectors[1], dim=0) == pytest.approx(1.0)
    assert weight[[1, 3]].std() == pytest.approx(float(before.std()), rel=1e-3)
    assert start_embedding(weight, ["x"] * 5, ["cat"], vectors[:1]) == 0
    with pytest.raises(ShapeError, match="is 3 wide and the vectors are 2") as problem:
        start_embedding(weight, [], [], torch.zeros(1, 2))
    assert "model.d_model=3" in problem.value.hint


def test_impossible_sizes_are_refused():
    with pytest.raises(ConfigError, match="d_model is 0, at least 1"):
        WordVectorsConfig(d_model=0)
