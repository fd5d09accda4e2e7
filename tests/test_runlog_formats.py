"""Every format of log is told by its content and read into the same table."""

import gzip
import json

import numpy as np
import pytest
from runlog_samples import REWARDS, RUNLOGS, own_rows, read_text, samples, state, table, trl_rows

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.log import OWN_LOG
from grpo_dynamics.runlog.read import choose, read

FORMATS = {
    "state.json": "TRL trainer_state.json",
    "history.json": "list of rows in JSON",
    "nested.json": "log_history in JSON",
    "lines.jsonl": "JSON Lines",
    "columns.json": "columnar JSON",
    "own.csv": "table",
    "own.tsv": "table",
    "semicolon.csv": "table",
    "run-x-tag-train_reward.csv": "TensorBoard CSV export",
    "words.log": "lines of key and value",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("encode", [bytes, gzip.compress, lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")])
def test_a_format_is_told_by_content_not_by_name(tmp_path, name, encode):
    given = name if name.startswith("run-") else "log"  # a TensorBoard export has its key in its name only
    (run,) = read_text(tmp_path, encode(samples()[name]), given)
    assert run.format == FORMATS[name]
    assert run.table["reward"].tolist() == REWARDS
    assert run.table["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert run.table["t"].tolist() == [0, 1, 2, 3, 4, 5]
    assert list(OWN_LOG.validate(run.table).columns) == list(OWN_LOG.columns)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16(tmp_path, encoding):
    data = table(own_rows()).encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    assert read_text(tmp_path, data)[0].table["reward"].tolist() == REWARDS


def test_quoted_numbers_and_decimal_commas(tmp_path):
    rows = [{key: str(value) for key, value in row.items()} for row in own_rows()]
    assert read_text(tmp_path, rows)[0].table["reward"].tolist() == REWARDS
    assert read_text(tmp_path, table(own_rows(), ";").replace(".", ","))[0].table["reward"].tolist() == REWARDS


def test_trl_console_output():
    (run,) = read(RUNLOGS / "trl_console.txt")
    table = run.table
    assert run.format == "TRL console output"
    assert "progress bar" in run.axis
    assert table["step"].tolist() == [10, 20, 30, 40]
    assert table["t"].tolist() == [4.5, 14.5, 24.5, 34.5]  # means over 10 steps, each sampled before its step
    assert table["reward"].tolist() == [0.25, 0.375, 0.5, 0.625]
    assert table["heldout_reward"].tolist()[1] == 0.35 and table["heldout_reward"].notna().sum() == 1
    assert table["non_finite"].tolist() == ["", "grad_norm", "", ""]
    np.testing.assert_allclose(table["reward_std"], np.array([0.5, 0.4, 0.3, 0.2]) * (3 / 4) ** 0.5)
    assert run.G == 4
    assert run.settings == {"beta": 0.04, "mu": 0.9, "K_ref": 4.0, "eta": 1e-6, "loss_type": "bnpo"}
    assert any("summary" in note for note in run.notes)


def test_trl_console_output_with_the_bars_apart(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "step"} for row in trl_rows()]
    bars = "".join(f"\r {n}%|##  | {n}/60 [00:0{n % 10}<00:10, 1.0s/it]" for n in range(1, 61))
    (run,) = read_text(tmp_path, bars + "\n" + "\n".join(map(str, rows)))
    assert run.table["step"].tolist() == [10, 20, 30, 40, 50, 60]
    (run,) = read_text(tmp_path, "\n".join(map(str, rows)))
    assert "number of the row" in run.axis
    assert run.table["t"].tolist() == [0, 1, 2, 3, 4, 5]


def test_bars_of_other_work_are_no_steps(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "step"} for row in trl_rows()]
    other = "Loading: 100%|##| 30/30 [00:01<00:00, 9.9it/s]\n"  # as many as the training has steps
    text = "".join(f" 10%|#  | {3 * n}/30 [00:0{n}<00:09, 1.0s/it]\n{other}{row}\n" for n, row in enumerate(rows, 1))
    assert read_text(tmp_path, text)[0].table["step"].tolist() == [3, 6, 9, 12, 15, 18]


def test_bars_of_narrow_windows(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "step"} for row in trl_rows()]
    text = "".join(f"{3 * n}/30 [00:0{n}<00:09, 1.0s/it]\n{row}\n" for n, row in enumerate(rows, 1))
    assert read_text(tmp_path, text)[0].table["step"].tolist() == [3, 6, 9, 12, 15, 18]


def test_console_and_state_of_one_run_agree(tmp_path):
    rows = trl_rows(spacing=5)
    text = "".join(
        f"  {r['step']}%|#  | {r['step']}/100 [0:01<0:10]\n{ {k: v for k, v in r.items() if k != 'step'} }\n"
        for r in rows
    )
    (a,) = read_text(tmp_path, text, "a")
    (b,) = read_text(tmp_path, state(rows, logging_steps=5), "b")
    assert a.table.equals(b.table)
    assert a.table["t"].tolist() == [2, 7, 12, 17, 22, 27]


def test_verl_console_output():
    (run,) = read(RUNLOGS / "verl_console.txt")
    table = run.table
    assert run.format == "verl console output"
    assert table["step"].tolist() == [0, 1, 2, 3, 4]
    assert table["t"].tolist() == [0, 0, 1, 2, 3]
    assert table["reward"].tolist()[1:] == [0.125, 0.25, 0.375, 0.5]
    assert table["heldout_reward"].dropna().tolist() == [0.125, 0.4375]
    assert table["kl"].tolist()[1:] == [0.001, 0.002, 0.003, 0.004]  # not actor/ppo_kl
    assert table["entropy"].tolist()[1:] == [0.9, 0.8, 0.7, 0.6]
    assert table["truncated_share"].tolist()[1:] == [0.0625] * 4
    assert table["seconds"].tolist()[1:] == [21, 22, 23, 24]
    assert table["groups"].tolist() == [32] * 5
    assert table["non_finite"].tolist() == ["", "", "", "grad_norm", ""]
    assert run.G == 8
    assert run.settings == {"eta": 1e-5, "beta": 0.001, "K_ref": 2.0, "max_completion_length": 128.0, "prompts": 32.0}
    assert {one.column: one.key for one in run.mapping}["reward"] == "critic/score/mean"


def test_wandb_export_has_several_runs_and_prefers_the_global_step(tmp_path):
    a, b = read_text(tmp_path, samples()["wandb.csv"])
    assert (a.name, b.name) == ("run-a", "run-b")
    assert a.format == b.format == "W&B export"
    assert a.table["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert b.table["step"].tolist() == [10, 20, 30, 40, 50, 60]
    assert b.table["reward"].tolist() == [reward / 2 for reward in REWARDS]


def test_several_runs_in_one_json(tmp_path):
    runs = read_text(tmp_path, samples()["runs.json"])
    assert [(run.name, len(run.table)) for run in runs] == [("a", 6), ("b", 3)]
    assert choose(runs, None) == (runs[0], "run 1 of 2, a: the longest, 6 rewards")
    assert choose(runs, "b")[0] is choose(runs, "2")[0] is runs[1]
    assert choose(runs[::-1], None) == (runs[0], "run 2 of 2, a: the longest, 6 rewards")
    assert choose(runs[:1], None) == (runs[0], "")
    with pytest.raises(InputError, match="found no run c, expected one of a, b, or a number up to 2"):
        choose(runs, "c")
    with pytest.raises(InputError, match="found no run 3"):
        choose(runs, "3")


@pytest.mark.parametrize(
    "document",
    [
        {"1": {"reward": 0.25}, "2": {"reward": 0.5}},
        {"reward": {"0": 0.25, "1": 0.5}},
        {"meta": {"a": [1, 2, 3]}, "steps": [{"metrics": {"reward": {"mean": 0.25}}}, {"metrics": {"reward": 0.5}}]},
        [{"name": "x", "history": [{"reward": 0.25}, {"reward": 0.5}]}],
    ],
)
def test_shapes_of_json(tmp_path, document):
    (run,) = read_text(tmp_path, document, renames={} if "meta" not in document else {"reward": "metrics/reward"})
    assert run.table["reward"].tolist() in ([0.25, 0.5], [0.5])


def test_folder_of_checkpoints_is_one_run_the_longest(tmp_path):
    for step in (2, 4, 6):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps(state(trl_rows()[:step])))
    (tmp_path / "checkpoint-4" / "trainer_state.json").write_text("{")
    (run,) = read(tmp_path)
    assert len(run.table) == 6
    assert run.name == tmp_path.name
    assert any("checkpoint-6, 6 rows" in note for note in run.notes)
    assert any("cannot be read, first checkpoint-4" in note for note in run.notes)


def test_folder_of_tensorboard_exports_is_one_run(tmp_path):
    own = {"train_reward_std": 0.2, "train_completions_mean_length": 99.0, "train_step_time": 3.0}
    for key, factor in ({"train_reward": 1.0, "train_kl": 0.1, "eval_reward": 0.5} | own).items():
        rows = [{"Wall time": 1.0, "Step": r["step"], "Value": r["reward"] * factor} for r in own_rows()]
        (tmp_path / f"my_run_{key}.csv").write_text(table(rows))
    (run,) = read(tmp_path, group_size=4)
    assert run.table["reward_std"].isna().all()  # step_time: of a late TRL
    assert run.table["reward"].tolist() == REWARDS
    assert run.table["heldout_reward"].tolist() == [reward * 0.5 for reward in REWARDS]
    np.testing.assert_allclose(run.table["kl"], [0.1 * reward for reward in REWARDS])


def write_events(folder, points, first=0.0):
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    writer.add_event(Event(wall_time=first, step=points[0][0], session_log=SessionLog(status=SessionLog.START)))
    for index, (step, values) in enumerate(points):
        for tag, value in values.items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=first + index, step=step, summary=summary))
    writer.close()


def test_tensorboard_events_and_their_seams(tmp_path):
    points = [(step, {"train/reward": step / 8, "train/kl": 0.5}) for step in range(1, 5)]
    write_events(tmp_path / "runs" / "a", [*points, (4, {"eval/reward": 0.25})])
    again = [(step, {"train/reward": 0.75, "train/kl": 0.25}) for step in (3, 4, 5)]
    write_events(tmp_path / "runs" / "b", points)
    write_events(tmp_path / "runs" / "b", again, first=10.0)
    a, b = read(tmp_path)
    assert (a.format, a.name, b.name) == ("TensorBoard event files", "runs/a", "runs/b")
    assert a.table["reward"].tolist() == [0.125, 0.25, 0.375, 0.5]
    assert a.table["heldout_reward"].tolist()[3] == 0.25
    assert b.table["reward"].tolist() == [0.125, 0.25, 0.75, 0.75, 0.75]
    assert any("from 4 to 3" in note for note in b.notes)
    (file,) = (tmp_path / "runs" / "a").iterdir()
    assert read(file)[0].table["reward"].tolist() == a.table["reward"].tolist()
    file.write_bytes(file.read_bytes()[:-7])
    assert read(file)[0].table["reward"].tolist()[:4] == [0.125, 0.25, 0.375, 0.5]


def test_arguments_in_tensorboard_events_state_the_group_size(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    writer = EventFileWriter(str(tmp_path))
    text = make_tensor_proto([json.dumps({"num_generations": 16, "beta": 0.0}).encode()])
    writer.add_event(
        Event(wall_time=0, step=0, summary=Summary(value=[Summary.Value(tag="args/text_summary", tensor=text)]))
    )
    writer.close()
    write_events(tmp_path, [(step, {"train/reward": 0.5}) for step in (1, 2)], first=1.0)
    (run,) = read(tmp_path)
    assert (run.G, run.settings) == (16, {"beta": 0.0})
    assert run.table["step"].tolist() == [1, 2]


def test_runs_of_this_study_are_read_as_the_study_reads_them(tmp_path):
    import pandas as pd
    from simulated import run_log

    from grpo_dynamics.analysis.series import as_own_log

    runs = [run_log(seed=0, K_ref=2), run_log(seed=1, G=16)]
    runs[1].loc[3, ["grad_norm", "loss"]] = np.nan
    whole = pd.concat(runs)
    whole.to_csv(tmp_path / "runs.csv", index=False)
    logs = read(tmp_path / "runs.csv")
    assert [log.G for log in logs] == [4, 16]
    assert [log.name for log in logs] == ["G 4, seed 0", "G 16, seed 1"]
    for log, run in zip(logs, runs, strict=True):
        assert log.format == "this study's run log"
        expected = as_own_log(run)
        assert log.table.drop(columns="non_finite").equals(expected.drop(columns="non_finite").astype(float))
        assert [set(bad.split()) for bad in log.table["non_finite"]] == [set(b.split()) for b in expected["non_finite"]]
