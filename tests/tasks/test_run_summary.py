"""What a run says of its data: files of the recipe, data with a fingerprint alone, and each of them once."""

from regard.tasks.facts.summary import DataSet, _data


def test_data_by_name() -> None:
    config = {"data": {"train": ["a.txt", "b.txt"], "test": {"new": "c.txt"}}}
    facts = {"fingerprints": {"train": "0123456789abcdef", "valid": ["11" * 20, "22" * 20], "made": "33" * 20}}
    train, valid, new, made = _data(config, facts)
    assert (train.name, train.files, train.made) == ("train", ("a.txt", "b.txt"), None)
    assert train.fingerprint
    assert "0123456789abcdef".startswith(train.fingerprint)
    assert (valid.name, valid.files) == ("valid", ())
    assert len((valid.fingerprint or "").split()) == 2
    assert new == DataSet("new", ("c.txt",), None)
    assert (made.name, made.files) == ("made", ())
