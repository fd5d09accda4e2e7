"""Lines of progress, and mistakes in a command's input as one sentence."""

import subprocess
import sys

from conftest import ROOT

from grpo_dynamics.progress import Progress


def test_progress_reports_every_due_step_and_always_the_last(capsys):
    progress = Progress("work", total=4, done=1, seconds=0.0)
    for step in (2, 3, 4):
        progress.report(step, loss=step / 8)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[:2] for line in lines] == [
        ["work: 2/4", "loss 0.250"],
        ["work: 3/4", "loss 0.375"],
        ["work: 4/4", "loss 0.500"],
    ]
    silent = Progress("work", total=2, seconds=3600)
    silent.report(1)
    assert capsys.readouterr().out == ""
    silent.report(2)
    assert capsys.readouterr().out.startswith("work: 2/2")


def test_bad_input_of_a_script_is_one_sentence_and_leaves_no_output(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("model,G\nllama,4\n")
    done = subprocess.run(
        [sys.executable, "workflow/scripts/runs.py", str(log), "--output", str(tmp_path / "runs.csv")],
        cwd=ROOT,
        env={"PYTHONPATH": "workflow"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {log}: run log: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [log]
