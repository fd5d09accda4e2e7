"""Steps that go back, repeat or are missing, files that are cut off: handled, and said."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runlog_samples import REWARDS, RUNLOGS, own_rows, read_text, samples, state, table, trl_rows

from grpo_dynamics.runlog.seams import gaps, spacing, split


def notes_of(run):
    return " ".join(run.notes)


def test_an_appended_run_is_another_run(tmp_path):
    runs = read_text(tmp_path, table(own_rows()[:3] + own_rows()), "x.csv")
    assert [(run.name, len(run.table)) for run in runs] == [("x, run 1", 3), ("x, run 2", 6)]
    assert "go back from 3 to 1: another run begins there" in notes_of(runs[0])


def test_a_resumed_run_is_one_run_and_its_later_rows_count(tmp_path):
    again = own_rows(range(4, 8), [0.75, 0.8, 0.85, 0.9])
    (run,) = read_text(tmp_path, own_rows() + again)
    assert run.table["step"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert run.table["reward"].tolist() == [*REWARDS[:3], 0.75, 0.8, 0.85, 0.9]
    assert "go back from 6 to 4: taken as a run that was resumed; the 3 earlier rows" in notes_of(run)


def test_a_resumed_run_that_ends_early_keeps_nothing_of_what_it_replaced(tmp_path):
    (run,) = read_text(tmp_path, own_rows() + own_rows([4], [0.9]))
    assert run.table["step"].tolist() == [1, 2, 3, 4]


def test_rows_of_a_console_without_steps_are_split_by_epochs(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "step"} for row in trl_rows()]
    runs = read_text(tmp_path, "\n".join(map(str, rows[:4] + rows)))
    assert [len(run.table) for run in runs] == [4, 6]
    (run,) = read_text(tmp_path, "\n".join(map(str, rows + rows[3:])))
    assert len(run.table) == 6 and "resumed" in notes_of(run)


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1, 0], [3, 0, 4, 1, 5, 2]])
def test_rows_in_no_order_are_sorted(tmp_path, order):
    (run,) = read_text(tmp_path, [own_rows()[index] for index in order])
    assert run.table["reward"].tolist() == REWARDS
    assert "sorted" in notes_of(run)


def test_train_and_held_out_rows_of_a_step_are_one_row(tmp_path):
    rows = trl_rows("0.20")
    rows.insert(3, {"eval_reward": 0.7, "eval_loss": 0.1, "step": 3, "epoch": 0.03})
    rows.append({"eval_reward": 0.9, "step": 6})
    (run,) = read_text(tmp_path, state(rows))
    assert len(run.table) == 6
    assert run.table["heldout_reward"].tolist()[2::3] == [0.7, 0.9]
    assert run.table["reward"].tolist() == REWARDS
    assert "had one" not in notes_of(run)


def test_held_out_rows_at_the_end_of_a_file_are_no_seam(tmp_path):
    (run,) = read_text(tmp_path, [*own_rows(), {"step": 2, "eval_reward": 0.3}, {"step": 9, "eval_reward": 0.4}])
    assert run.table["heldout_reward"].dropna().tolist() == [0.3, 0.4]
    assert run.table["t"].tolist() == [0, 1, 2, 3, 4, 5, 9]


def test_metrics_of_a_step_in_several_rows_are_put_together_and_of_two_numbers_the_last_counts(tmp_path):
    parts = [part for row in own_rows() for part in ({"step": row["step"], "reward": row["reward"]},
                                                     {"step": row["step"], "loss": 0.5})]  # fmt: skip
    (run,) = read_text(tmp_path, parts)
    assert run.table["reward"].tolist() == REWARDS and run.table["loss"].tolist() == [0.5] * 6
    assert "had one" not in notes_of(run)
    (run,) = read_text(tmp_path, own_rows() + own_rows([6], [0.99]))
    assert run.table["reward"].tolist()[-1] == 0.99 and "1 row of a step that had one, first 6" in notes_of(run)


def test_rows_without_numbers_or_steps_and_summaries_are_counted(tmp_path):
    rows = [*own_rows(), {"reward": 0.5}, {"step": 7, "text": "saved"}, {"train_runtime": 9.0, "reward": 1, "step": 7}]
    (run,) = read_text(tmp_path, rows)
    assert run.table["reward"].tolist() == REWARDS
    for said in ("1 row without a step", "1 row without a number", "1 row with the run's summary"):
        assert said in notes_of(run)


def test_gaps_are_said(tmp_path):
    rows = own_rows()
    del rows[2:4]
    (run,) = read_text(tmp_path, rows)
    assert "missing in 1 place, first between the steps 2 and 5: 2 in all" in notes_of(run)
    assert gaps(np.array([10.0, 20, 30])) == "" and gaps(np.array([3.0])) == ""
    assert spacing(np.array([50.0, 100, 150, 300])) == 50


@given(st.integers(1, 3), st.lists(st.integers(3, 9), min_size=1, max_size=4))
def test_runs_that_were_appended_are_told_apart(first, lengths):
    steps = [float(step) for length in lengths for step in range(first, first + length)]
    runs, notes = split(steps, [True] * len(steps))
    assert [len(run) for run in runs] == lengths
    assert len(notes) == len(lengths) - 1


@given(st.integers(4, 30), st.data())
def test_a_resumed_run_keeps_every_step_once_and_the_later_rows(length, data):
    at = data.draw(st.integers(2, length))
    end = data.draw(st.integers(at + 4, at + 40))
    steps = [float(step) for step in [*range(1, length + 1), *range(at, end)]]
    (run,), notes = split(steps, [True] * len(steps))
    if at == length:  # repeats the last step, and goes nowhere back
        assert not notes
    else:
        assert [steps[index] for index in run] == [float(step) for step in range(1, end)]
        assert set(range(length, len(steps))) <= set(run)


def test_json_that_is_cut_off_gives_its_complete_rows(tmp_path):
    text = json.dumps(state(trl_rows()), indent=2)
    (run,) = read_text(tmp_path, text[: text.index('"step": 5') - 40])
    assert run.table["reward"].tolist() == REWARDS[:4]
    assert "cut off or damaged at line" in notes_of(run)
    lines = samples()["lines.jsonl"]
    (run,) = read_text(tmp_path, lines[:-30])
    assert run.table["reward"].tolist() == REWARDS[:5] and "the last is cut off" in notes_of(run)
    (run,) = read_text(tmp_path, samples()["columns.json"][:-4])
    assert run.table["reward"].tolist() == REWARDS
    (run,) = read_text(tmp_path, '{"reward": [0.125, 0.25, 0.3')
    assert run.table["reward"].tolist() == [0.125, 0.25]


def test_console_output_that_is_cut_off(tmp_path):
    text = (RUNLOGS / "trl_console.txt").read_text()
    (run,) = read_text(tmp_path, text[: text.index("'reward_std': 0.2,")])
    assert run.table["step"].tolist() == [10, 20, 30] and "last entry is cut off" in notes_of(run)
    text = (RUNLOGS / "verl_console.txt").read_text()
    (run,) = read_text(tmp_path, text[: text.index("response_length", text.index("step:4 -"))])
    assert run.table["reward"].tolist()[-1] == 0.5


def test_compressed_file_that_is_cut_off(tmp_path):
    rows = own_rows(range(2000), np.random.default_rng(0).random(2000).tolist())
    data = gzip.compress(table(rows).encode())
    (run,) = read_text(tmp_path, data[: len(data) // 2])
    assert 500 < len(run.table) < 1500 and "compressed file is cut off" in notes_of(run)
