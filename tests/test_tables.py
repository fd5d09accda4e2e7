"""Tables are checked when written and read, and a mistake is one sentence."""

import os
import subprocess
import sys

import pandas as pd
import pandera.pandas as pa
import pytest
from conftest import ROOT

from grpo_dynamics import tables
from grpo_dynamics.command import InputError

SCHEMA = tables.schema(
    "small table",
    {
        "G": tables.G,
        "share": tables.column(float, "a share", tables.SHARE),
        "name": tables.column(str, "a name", pa.Check.isin(["a", "b"])),
    },
    unique=["G"],
)
GOOD = pd.DataFrame({"G": [4, 16], "share": [0.5, 1.0], "name": ["a", "b"]})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_round_trip(tmp_path, suffix):
    tables.write(GOOD, tmp_path / f"t{suffix}", SCHEMA)
    read = tables.read(tmp_path / f"t{suffix}", SCHEMA)
    pd.testing.assert_frame_equal(read, tables.check(GOOD, SCHEMA))
    assert [path.name for path in tmp_path.iterdir()] == [f"t{suffix}"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (GOOD.drop(columns="share"), "found no column share, expected the columns G, share, name"),
        (GOOD.assign(more=1), "found the column more, expected only G, share, name"),
        (GOOD.assign(G=4), "found several rows with"),
        (GOOD.assign(share=1.5), "column share: found 1.5, expected in_range(0, 1)"),
        (GOOD.assign(name=["a", "c"]), "column name: found c, expected isin(['a', 'b'])"),
        (GOOD.assign(share="much"), "column share: found much, expected"),
        (GOOD.assign(share=[0.5, None]), "column share: found nan, expected not_nullable"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(tmp_path, table, expected):
    path = tmp_path / "t.csv"
    path.write_text("before")
    with pytest.raises(InputError) as caught:
        tables.write(table, path, SCHEMA)
    assert str(caught.value).startswith(f"{path}: small table: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_stage_times_count_the_jobs_of_the_study_alone(tmp_path):
    for name, seconds in (("grpo/a", 3.0), ("grpo/b", 5.0), ("removed/c", 10.0), ("claims", 1.0)):
        path = tmp_path / "benchmarks" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"s\tmax_rss\n{seconds}\t{100 * seconds}\n")
    own = [tmp_path / "benchmarks" / f"{name}.tsv" for name in ("claims", "grpo/a", "grpo/b", "grpo/not-yet-run")]
    script = ROOT / "workflow" / "scripts" / "stage_times.py"
    output = tmp_path / "benchmarks.csv"
    subprocess.run(
        [sys.executable, script, *own, "--folder", tmp_path / "benchmarks", "--output", output],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
    )
    table = tables.read(output, tables.STAGE_TIMES).set_index("stage")
    assert table["seconds"].to_dict() == {"grpo": 8.0, "claims": 1.0}
    assert table.loc["grpo", ["jobs", "longest", "memory"]].tolist() == [2, 5.0, 500.0]
