"""What the keys mean, by era: reward_std, time, group size, range, and the sentences that refuse a log."""

import json

import numpy as np
import pytest
from runlog_samples import REWARDS, own_rows, read_text, samples, state, table, trl_rows

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.keys import SYNONYMS, canonical, number, resolve
from grpo_dynamics.runlog.log import OWN_LOG
from grpo_dynamics.runlog.read import read


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("reward", "reward"),
        ("train/reward", "reward"),
        ("rewards_avg", "reward"),
        ("critic/score/mean", "reward"),
        ("critic/score/max", None),
        ("rewards/right", None),
        ("rewards/right/mean", None),
        ("eval_rewards/right/mean", None),
        ("eval/reward", "heldout_reward"),
        ("eval_reward_std", None),
        ("val-core/openai/gsm8k/reward/mean@1", "heldout_reward"),
        ("val-aux/gsm8k/reward/std@8", None),
        ("val/test_score/gsm8k", "heldout_reward"),
        ("val_accuracies_avg", "heldout_reward"),
        ("train_accuracy", "reward"),
        ("em", "heldout_reward"),
        ("completion_length", "completion_length"),
        ("completions/mean_length", "completion_length"),
        ("completions/min_length", None),
        ("response_length/clip_ratio", "truncated_share"),
        ("completions/clipped_ratio", "truncated_share"),
        ("clip_ratio", "clip_share"),
        ("clip_ratio/region_mean", "clip_share"),
        ("clip_ratio/low_min", None),
        ("sampling/importance_sampling_ratio/max", None),
        ("actor/ppo_kl", None),
        ("actor/kl_loss", "kl"),
        ("actor/entropy_loss", "entropy"),
        ("frac_reward_zero_std", "collapsed_share"),
        ("_step", "step"),
        ("train/global_step", "step"),
        ("epoch", None),
    ],
)
def test_what_a_key_stands_for(key, column):
    found = resolve(key)
    assert (found and found[0]) == column


def test_the_synonyms_are_canonical_and_no_key_has_two_meanings():
    keys = [key for options in SYNONYMS.values() for key in options]
    assert len(set(keys)) == len(keys)
    assert [key for key in keys if "*" not in key and canonical(key) != key] == []
    assert set(SYNONYMS) <= set(OWN_LOG.columns)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0.5", 0.5), ("np.float64(-1e-3)", -1e-3), ("tensor(2)", 2), (" 3 ", 3), (True, None), ("a", None), ("", None)],
)
def test_numbers(value, expected):
    assert number(value) == expected


def test_numbers_beyond_a_float_are_infinite():
    assert number(10**400) == np.inf
    assert np.isnan(number("NaN"))


@pytest.mark.parametrize(
    ("era", "settings", "used", "said"),
    [
        ("0.15", {}, True, "0.14 to 0.17"),
        ("0.17", {}, True, "0.14 to 0.17"),
        ("0.18", {}, True, "0.18 or 0.19"),
        ("0.20", {}, True, "unless scale_rewards is batch"),
        ("0.20", {"scale_rewards": "batch"}, False, "scale_rewards is batch"),
        ("0.26", {}, False, "0.26 or later"),
        ("0.26", {"trl_version": "0.26.1"}, True, "TRL 0.26"),
        ("0.26", {"trl_version": "0.27.0"}, False, "TRL 0.27 pools"),
        ("0.26", {"trl_version": "1.16.0"}, False, "TRL 1.16 pools"),
    ],
)
def test_reward_std_is_used_by_era(tmp_path, era, settings, used, said):
    document = state(trl_rows(era)) | {"config": {"num_generations": 4} | settings}
    (run,) = read_text(tmp_path, document)
    note = {one.column: one.note for one in run.mapping}["reward_std"]
    assert said in note
    if used:
        np.testing.assert_allclose(run.table["reward_std"], 0.25 * (3 / 4) ** 0.5)
    else:
        assert run.table["reward_std"].isna().all() and note.startswith("not used")


def test_reward_std_needs_the_group_size_and_a_known_writer(tmp_path):
    (run,) = read_text(tmp_path, state(trl_rows()))
    assert run.table["reward_std"].isna().all()
    assert "--group-size" in {one.column: one.note for one in run.mapping}["reward_std"]
    (run,) = read_text(tmp_path, state(trl_rows()), group_size=2)
    np.testing.assert_allclose(run.table["reward_std"], 0.25 * 0.5**0.5)
    rows = [row | {"reward_std": 0.25} for row in own_rows()]
    (run,) = read_text(tmp_path, rows, group_size=4)
    assert "not known" in {one.column: one.note for one in run.mapping}["reward_std"]


def test_null_makes_the_era_late_and_is_counted(tmp_path):
    rows = trl_rows("0.20")
    rows[2]["entropy"] = None
    (run,) = read_text(tmp_path, state(rows), group_size=4)
    assert np.isnan(run.table["entropy"][2]) and run.table["non_finite"][2] == ""
    assert run.table["reward_std"].isna().all()
    assert any(note.startswith("1 value is null") for note in run.notes)


def test_not_finite_is_empty_and_named(tmp_path):
    text = json.dumps(trl_rows()).replace('"grad_norm": 0.5', '"grad_norm": NaN', 1).replace("0.002", "-Infinity", 1)
    (run,) = read_text(tmp_path, text)
    assert run.table["non_finite"].tolist() == ["grad_norm", "", "kl", "", "", ""]
    assert run.table["grad_norm"].isna().tolist() == [True] + [False] * 5


def test_nan_where_nothing_was_measured_is_empty_and_no_failure(tmp_path):
    nan = float("nan")
    rows = [
        {"step": n, "reward": 0.5, "grad_norm": nan if n > 25 else 0.5, "entropy": 0.3 if n % 5 == 0 else nan,
         "eval_reward": 0.4 if n % 7 == 0 or n == 9 else nan, "loss": nan if n % 3 == 0 else 0.1}
        for n in range(1, 31)
    ]  # fmt: skip
    rows[3]["eval_reward"] = float("inf")
    (run,) = read_text(tmp_path, "\n".join(json.dumps(row) for row in rows))
    named = [set(row.split()) for row in run.table["non_finite"]]
    assert [n for n, names in enumerate(named, 1) if "heldout_reward" in names] == [4]
    assert not any("entropy" in names for names in named)
    assert [n for n, names in enumerate(named, 1) if "grad_norm" in names] == [26, 27, 28, 29, 30]
    assert [n for n, names in enumerate(named, 1) if "loss" in names] == list(range(3, 31, 3))
    assert run.table["entropy"].notna().sum() == 6


def test_nan_of_the_trainer_in_the_row_of_an_evaluation_is_no_failure(tmp_path):
    nan = float("nan")
    rows = [{"step": n, "reward": 0.5, "kl": 0.1, "eval_reward": nan} for n in range(1, 31)]
    rows[10:10] = [{"step": 10, "reward": nan, "kl": nan, "eval_reward": 0.4}]
    rows[20] |= {"kl": nan}
    (run,) = read_text(tmp_path, "\n".join(json.dumps(row) for row in rows))
    assert [n for n, names in enumerate(run.table["non_finite"], 1) if names] == [20]
    assert run.table["heldout_reward"].notna().sum() == 1


@pytest.mark.parametrize("spacing", [1, 5])
def test_time_of_a_trl_row_is_the_mean_over_its_steps(tmp_path, spacing):
    rows = [*trl_rows(spacing=spacing), {"eval_reward": 0.5, "step": 6 * spacing + 1}]
    (run,) = read_text(tmp_path, state(rows, logging_steps=spacing))
    expected = [np.mean([n - 1 for n in range(row["step"] - spacing + 1, row["step"] + 1)]) for row in rows[:-1]]
    assert run.table["t"].tolist() == [*expected, 6 * spacing + 1]


def test_time_of_a_first_row_and_after_a_gap(tmp_path):
    rows = trl_rows(spacing=10)
    rows.insert(0, rows[0] | {"step": 1})  # logging_first_step
    del rows[4]
    (run,) = read_text(tmp_path, state(rows, logging_steps=10))
    assert run.table["step"].tolist() == [1, 10, 20, 30, 50, 60]
    assert run.table["t"].tolist() == [0, 5, 14.5, 24.5, 44.5, 54.5]
    assert any("between the steps 30 and 50" in note for note in run.notes)


def test_time_of_other_logs(tmp_path):
    (run,) = read_text(tmp_path, own_rows(range(6)))
    assert run.table["t"].tolist() == [0, 1, 2, 3, 4, 5]  # the step counts the updates made
    (run,) = read_text(tmp_path, own_rows(range(1, 7)))
    assert run.table["t"].tolist() == [0, 1, 2, 3, 4, 5]
    rows = [{"step": 50 * n, "r_total": r, "em": r, "f1": r} for n, r in enumerate(REWARDS, 1)]
    (run,) = read_text(tmp_path, table(rows))
    assert run.table["t"].tolist() == run.table["step"].tolist() == [50, 100, 150, 200, 250, 300]
    assert any("checkpoints" in note for note in run.notes)


def test_epochs_are_no_steps(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "step"} for row in trl_rows()]
    (run,) = read_text(tmp_path, rows)
    assert "epochs are no steps" in run.axis
    assert run.table["step"].tolist() == [1, 2, 3, 4, 5, 6]


def test_group_size_given_and_stated(tmp_path):
    document = state(trl_rows()) | {"args": {"num_generations": 6}}
    assert read_text(tmp_path, document)[0].G == 6
    (run,) = read_text(tmp_path, document, group_size=8)
    assert run.G == 8 and any("states a group size of 6" in note for note in run.notes)
    assert read_text(tmp_path, state(trl_rows()))[0].G is None
    contradictory = document | {"other": {"num_generations": 4}}
    (run,) = read_text(tmp_path, contradictory)
    assert run.G is None and any("several values of num_generations (4.0, 6.0)" in note for note in run.notes)


@pytest.mark.parametrize("given", [None, 1, 2])
def test_a_group_of_one_is_refused(tmp_path, given):
    one = samples()["verl.txt"].replace(b"'rollout': {'n': 8", b"'rollout': {'n': 1")
    with pytest.raises(InputError, match=r"found a group size of 1.*is no GRPO") as refusal:
        read_text(tmp_path, one, group_size=given)
    assert ("whatever --group-size 2 says" in str(refusal.value)) == (given == 2)


def test_the_reward_s_range(tmp_path):
    assert read_text(tmp_path, own_rows())[0].reward_range == (0, 1)
    assert read_text(tmp_path, own_rows(), reward_range=(-1, 2))[0].reward_range == (-1, 2)
    outside = own_rows(rewards=[-1.0, 0, 1, 2, 1, 0])
    (run,) = read_text(tmp_path, outside)
    assert run.reward_range == (-1, 2) and any("range is not known" in note for note in run.notes)
    with pytest.raises(InputError, match="found rewards from -1 to 2, expected all within --reward-range 0 to 1"):
        read_text(tmp_path, outside, reward_range=(0, 1))
    with pytest.raises(InputError, match="expected the lower bound first"):
        read_text(tmp_path, outside, reward_range=(1, 0))


def test_renaming(tmp_path):
    rows = [{"step": n, "gain": r, "reward": 0.0} for n, r in enumerate(REWARDS, 1)]
    (run,) = read_text(tmp_path, table(rows), renames={"reward": "gain"})
    assert run.table["reward"].tolist() == REWARDS
    with pytest.raises(InputError, match=r"--map reward=nothing: found no numbers of that name.* step, gain, reward"):
        read_text(tmp_path, table(rows), renames={"reward": "nothing"})
    with pytest.raises(InputError, match="--map: found prize, expected one of step, sample_age"):
        read_text(tmp_path, table(rows), renames={"prize": "gain"})


def test_what_was_used_and_what_was_not(tmp_path):
    rows = [row | {"score": 1.0, "mystery": 3, "em": 0.5, "text": "x"} for row in own_rows()]
    (run,) = read_text(tmp_path, rows)
    assert {one.column: (one.key, one.note) for one in run.mapping} == {
        "step": ("step", ""),
        "reward": ("reward", "preferred to score"),
        "heldout_reward": ("em", ""),
        "loss": ("loss", ""),
    }
    assert run.ignored == ("score", "mystery", "text")


def test_a_column_with_impossible_values_is_not_used(tmp_path):
    rows = trl_rows("0.20")
    rows[1]["completions/clipped_ratio"] = 12.5
    (run,) = read_text(tmp_path, rows)
    assert run.table["truncated_share"].isna().all()
    assert "truncated_share is not used: 12.5 at step 2, outside [0, 1]." in run.notes


SFT = [{"epoch": 0.1 * n, "loss": 2.0 / n, "grad_norm": 0.5, "learning_rate": 1e-5, "step": n} for n in range(1, 5)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (state(SFT), r"found no reward \(the numbers epoch, loss, grad_norm, learning_rate, step\).*--map reward=KEY"),
        (state([]), r"found no reward \(no numbers\)"),
        ([{"reward": None, "step": 1}], r"found no reward \(the numbers step\)"),
        ("", "found an empty file"),
        (" \n\t ", "found an empty file"),
        (bytes(range(256)) * 20, "found a binary file"),
        ("Dear reader,\nthis is a letter, and no log.\n", "found no logged rows"),
        ("[[[" * 50_000, "found no logged rows"),
        ("1,2,3\n4,5,6\n", "found no logged rows"),
        ("a,b\n1,2\n", r"found no reward \(the numbers a, b\)"),
    ],
)
def test_what_is_no_log_of_grpo_is_refused_in_a_sentence(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        read_text(tmp_path, content)
    assert str(tmp_path / "log") in str(refusal.value) and "\n" not in str(refusal.value)


def test_missing_files_and_empty_folders(tmp_path):
    with pytest.raises(InputError, match="no such file or directory"):
        read(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="found no log in the folder"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("stated", "K_ref"),
    [
        ({"steps_per_generation": 8, "gradient_accumulation_steps": 2}, 4.0),  # num_iterations is 1 by default
        ({"steps_per_generation": 8, "gradient_accumulation_steps": 2, "num_iterations": 3}, 12.0),
        ({"gradient_accumulation_steps": 2}, None),
        ({"a": {"num_iterations": 1}, "b": {"num_iterations": 2}, "steps_per_generation": 8,
          "gradient_accumulation_steps": 2}, None),
    ],
)  # fmt: skip
def test_K_ref_of_TRL(tmp_path, stated, K_ref):
    (run,) = read_text(tmp_path, state(trl_rows("2025")) | {"config": stated})
    assert run.settings.get("K_ref") == K_ref


@pytest.mark.parametrize(("epochs", "K_ref"), [("", 4.0), (" actor_rollout_ref.actor.ppo_epochs=2", 8.0)])
def test_a_launch_line_of_verl_has_the_settings(tmp_path, epochs, K_ref):
    launch = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=1024 actor_rollout_ref.rollout.n=8 "
        f"actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.optim.lr=1e-6{epochs}"
    )
    rows = [f"step:{n} - critic/score/mean:0.{n} - actor/grad_norm:0.3" for n in range(1, 5)]
    (run,) = read_text(tmp_path, "\n".join([launch, *rows]))
    assert (run.G, run.settings) == (8, {"eta": 1e-6, "K_ref": K_ref, "prompts": 1024.0})
