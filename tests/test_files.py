"""Files are written whole or not at all."""

from __future__ import annotations

import pytest

from grpo_dynamics.files import replacing


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with replacing(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("ha")
        raise RuntimeError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
