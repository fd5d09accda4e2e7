"""Small GRPO logs in the formats that people have, for the tests of the readers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from grpo_dynamics.runlog.read import read

RUNLOGS = Path(__file__).parent / "runlogs"
REWARDS = [0.125, 0.25, 0.375, 0.5, 0.5625, 0.625]


def trl_rows(era: str = "0.15", spacing: int = 1) -> list[dict]:
    """Rows as TRL writes them, one every `spacing` steps."""
    rows = []
    for index, reward in enumerate(REWARDS):
        row = {"loss": 0.01 * index, "grad_norm": 0.5, "learning_rate": 1e-6, "kl": 0.001 * index, "reward": reward}
        row |= {"reward_std": 0.25, "epoch": 0.01 * (index + 1), "step": spacing * (index + 1)}
        row |= {"rewards/right": reward} if era == "0.15" else {"rewards/right/mean": reward, "rewards/right/std": 0.4}
        row |= {"completion_length": 90.0} if era == "0.15" else {"completions/mean_length": 90.0}
        if era > "0.15":
            row |= {"completions/clipped_ratio": 0.125, "clip_ratio/region_mean": 0.01}
        if era >= "0.18":
            row["frac_reward_zero_std"] = 0.5
        if era >= "0.20":
            row["entropy"] = 0.7
        if era >= "0.26":
            row["step_time"] = 3.0
        rows.append(row)
    return rows


def state(rows: list[dict], **others) -> dict:
    """A trainer_state.json around rows."""
    own = {"best_metric": None, "epoch": 0.1, "global_step": rows[-1]["step"] if rows else 0, "log_history": rows}
    return own | {"logging_steps": 1, "max_steps": 100, "stateful_callbacks": {"TrainerControl": {"args": {}}}} | others


def table(rows: list[dict], delimiter: str = ",") -> str:
    """Rows as a table with a delimiter; what is missing is empty."""
    out = io.StringIO()
    names = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(out, names, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def own_rows(steps=range(1, 7), rewards=REWARDS) -> list[dict]:
    return [{"step": step, "reward": reward, "loss": 0.1} for step, reward in zip(steps, rewards, strict=True)]


def samples() -> dict[str, bytes]:
    """A file of every format, by its name."""
    rows = trl_rows("0.20")
    two = {"a": {"history": own_rows()}, "b": {"history": own_rows()[:3]}}
    columns = {"rewards_avg": REWARDS, "kl_avg": [0.1] * 6}
    wandb = [
        {"Step": 10 * r["step"], "run-a - train/reward": r["reward"], "run-a - train/reward__MIN": r["reward"],
         "run-a - train/global_step": r["step"], "run-b - train/reward": r["reward"] / 2} for r in own_rows()
    ]  # fmt: skip
    scalar = [{"Wall time": 1.5 + r["step"], "Step": r["step"], "Value": r["reward"]} for r in own_rows()]
    texts = {
        "state.json": json.dumps(state(rows), indent=2),
        "history.json": json.dumps(rows),
        "nested.json": json.dumps({"result": {"loss": 0.1}, "deep": {"log_history": rows}, "config": {"lr": 1e-6}}),
        "lines.jsonl": "\n".join(json.dumps(row) for row in rows),
        "columns.json": json.dumps(columns),
        "runs.json": json.dumps(two),
        "own.csv": table(own_rows()),
        "own.tsv": table(own_rows(), "\t"),
        "semicolon.csv": table(own_rows(), ";"),
        "wandb.csv": table(wandb),
        "run-x-tag-train_reward.csv": table(scalar),
        "words.log": "\n".join(f"step {r['step']} | reward: {r['reward']} loss=0.1" for r in own_rows()),
        "trl.txt": (RUNLOGS / "trl_console.txt").read_text(),
        "verl.txt": (RUNLOGS / "verl_console.txt").read_text(),
    }
    return {name: text.encode() for name, text in texts.items()}


def read_text(folder: Path, content: str | bytes | dict | list, name: str = "log", **options):
    """The runs that are read from a file with this content."""
    if isinstance(content, (dict, list)):
        content = json.dumps(content)
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, **options)
