"""Whatever a file holds, it is read into OWN_LOG or refused in one line."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runlog_samples import read_text, samples

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.log import OWN_LOG

SAMPLES = samples()
FRAGMENTS = [b"null", b"NaN", b"-Infinity", b'"x"', b"[[1]]", b"9" * 400, b"-1", b'{"a":', b"1e999", b"", b"\n", b"\r"]
FRAGMENTS += [b"'", b'"', b",", b"\x00", b"{", b"}", b"[", b"True", b"None", b"1e-320", b"-1e300", b"\xff", b"\xe2\x96"]
KEYS = [b"reward", b"step", b"kl", b"loss", b"epoch", b"log_history", b"train_runtime", b"G"]
QUIET = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def damaged(draw):
    """A sample that was cut, spliced, shuffled, renamed, or had numbers replaced."""
    data = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([0, 1, 3, 30, 300])))
        match draw(st.sampled_from(["cut", "replace", "repeat", "number", "rename", "lines"])):
            case "cut":
                data = data[:at]
            case "replace":
                data = data[:at] + draw(st.sampled_from(FRAGMENTS)) + data[end:]
            case "repeat":
                data = data[:end] + data[at:]
            case "number":
                number = re.compile(rb"-?\d+\.?\d*").search(data, at)
                if number:
                    data = data[: number.start()] + draw(st.sampled_from(FRAGMENTS)) + data[number.end() :]
            case "rename":
                data = data.replace(draw(st.sampled_from(KEYS)), draw(st.sampled_from(KEYS)))
            case "lines":
                lines = data.split(b"\n")
                lines = draw(st.permutations(lines)) if len(lines) < 15 else lines[::-1]
                data = b"\n".join(lines)
    return data


def accepted(folder, content):
    """Number of runs read; 0 if refused. Anything but a table that passes or a line of refusal is an error."""
    try:
        runs = read_text(folder, content)
    except InputError as refusal:
        assert str(refusal) and "\n" not in str(refusal)
        return 0
    for run in runs:
        OWN_LOG.validate(run.table)
        assert len(run.table) and run.table["t"].notna().all() and run.table["reward"].notna().any()
        assert run.reward_range[0] <= run.table["reward"].min() <= run.table["reward"].max() <= run.reward_range[1]
        assert not any("\n" in note for note in run.notes)
    assert runs
    return len(runs)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_samples_are_read(tmp_path, name):
    given_name = name if name.startswith("run-") else "log"
    assert read_text(tmp_path, SAMPLES[name], given_name)


@QUIET
@given(content=damaged())
def test_damaged_logs(tmp_path, content):
    accepted(tmp_path, content)


@QUIET
@given(content=st.binary(max_size=300))
def test_arbitrary_bytes(tmp_path, content):
    accepted(tmp_path, content)


SCALARS = (
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["nan", "0.5", "x", "1e400", 10**400])
)
NAMES = st.sampled_from(["reward", "step", "kl", "epoch", "log_history", "eval_reward", "1", "", "a - b", "entropy"])


@QUIET
@given(document=st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner)))
def test_arbitrary_json(tmp_path, document):
    import json

    accepted(tmp_path, json.dumps(document))


ROW = st.dictionaries(NAMES, SCALARS, min_size=1)


@QUIET
@given(rows=st.lists(ROW, min_size=1, max_size=12))
def test_arbitrary_rows(tmp_path, rows):
    accepted(tmp_path, rows)
    accepted(tmp_path, "\n".join(map(str, rows)))
