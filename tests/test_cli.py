"""The command line: what it prints, writes and returns, and what it refuses in one sentence."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

from grpo_dynamics import cli, config, demo


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with a run that decouples, a clean rise without steps, and a log without a reward."""
    folder = tmp_path_factory.mktemp("logs")
    demo.write("decoupling", folder / "hack.json")
    demo.write("healthy", folder / "healthy.json")
    t = np.arange(120)
    rise = 0.2 + 0.6 * (1 - (1 + 0.08 * t) * np.exp(-0.08 * t)) + 0.01 * np.sin(7 * t)
    pd.DataFrame({"step": t + 1, "wins": rise, "learning_rate": 1e-6}).to_csv(folder / "rise.csv", index=False)
    return folder


def run(capsys, monkeypatch, *arguments):
    """(exit status, standard output, standard error) of a command."""
    monkeypatch.setattr(sys, "argv", ["grpo-dynamics", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "80")
    try:
        cli.main()
        status = 0
    except SystemExit as done:
        status = done.code or 0
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def call(capsys, monkeypatch):
    for stream in (sys.stdout, sys.stderr):
        if not hasattr(stream, "reconfigure"):
            monkeypatch.setattr(type(stream), "reconfigure", lambda self, **options: None, raising=False)
    return lambda *arguments: run(capsys, monkeypatch, *arguments)


def test_diagnose_says_first_what_is_wrong_and_since_when(call, logs):
    status, out, _ = call("diagnose", logs / "hack.json", "--group-size", demo.G)
    assert status == 0
    first = " ".join(out.split())
    assert first.startswith("✗ Critical: train-eval decoupling since step 140.")
    assert "Likely cause: train-eval decoupling (seen in heldout_fall, since step 140)." in first
    assert "from 0.75 (last reached at step 90) to 0.21 at the end" in first  # it falls slowly, from step 80 on
    for said in ("Evidence: the held-out reward has lost", "May be confused with:", "What to do: Stop at the onset"):
        assert said in first
    assert "Not assessable (which is not health)" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "severity", "status"),
    [("hack", "warning", 2), ("hack", "critical", 2), ("healthy", "warning", 0), ("hack", None, 0)],
)
def test_exit_status_follows_fail_on(call, logs, name, severity, status):
    wanted = ["--fail-on", severity] if severity else []
    assert call("diagnose", logs / f"{name}.json", "--group-size", demo.G, *wanted)[0] == status


def test_a_graded_reward_is_not_judged_as_a_binary_one(call, logs, tmp_path):
    rows = [
        {"step": step, "reward": 0.4 + 0.001 * (step % 7), "reward_std": 0.05, "frac_reward_zero_std": 0.0}
        for step in range(1, 61)
    ]
    (tmp_path / "graded.json").write_text(json.dumps({"log_history": rows, "global_step": 60}))
    status, out, _ = call("diagnose", tmp_path / "graded.json", "--group-size", 8, "--fail-on", "warning")
    assert status == 0
    assert "spread_over_chance: the reward is not binary" in " ".join(out.split())


def test_a_threshold_can_be_overridden(call, logs):
    thresholds = ["heldout_fall.critical=0.99", "heldout_fall.warning=0.98", "heldout_gain_share.warning=-9",
                  "heldout_gain_share.critical=-9"]  # fmt: skip
    options = [part for entry in thresholds for part in ("--set", entry)]
    status, out, _ = call("diagnose", logs / "hack.json", "-G", demo.G, "--fail-on", "warning", *options)
    assert (status, out.startswith("✓ Healthy")) == (0, True)


def test_json_is_all_that_is_printed_and_has_no_nan(call, logs):
    _, out, _ = call("diagnose", logs / "hack.json", "--json")

    def refuse(token):
        raise AssertionError(token)

    found = json.loads(out, parse_constant=refuse)
    assert (found["diagnosis"]["primary"], found["diagnosis"]["verdict"]) == ("decoupling", "critical")
    numbers = {one["diagnostic"]: one for one in found["diagnosis"]["numbers"]}
    assert numbers["spread_over_chance"]["value"] is None
    assert numbers["heldout_fall"]["low"] <= numbers["heldout_fall"]["value"] <= numbers["heldout_fall"]["high"]
    assert found["log"]["rows"] == demo.STEPS


def test_read_gives_the_rows_as_json(call, logs):
    _, out, _ = call("read", logs / "rise.csv", "--map", "reward=wins", "--json")
    table = json.loads(out)["log"]["table"]
    assert table["step"] == list(range(1, 121))
    assert table["reward"][0] == pytest.approx(0.2)


def test_fit_finds_the_plateau_and_predict_the_curvature(call, logs):
    _, out, _ = call("fit", logs / "rise.csv", "--map", "reward=wins", "--json")
    plateau = json.loads(out)["fit"]["estimates"]["R_inf"]
    assert plateau["low"] <= 0.8 <= plateau["high"]
    _, out, _ = call("predict", logs / "rise.csv", "--map", "reward=wins", "--mu", 0, "--json")
    forecast = json.loads(out)["forecast"]
    assert forecast["a"]["value"] == pytest.approx(1e-6 * forecast["K"]["value"])


def test_an_unstable_setting_is_headed_by_a_cross(call, tmp_path):
    setting = ("--eta", "1e-6", "--K", "1e4", "--K-ref", 100000)
    _, out, _ = call("predict", *setting, "--html", tmp_path / "page.html")
    assert "✗ Unstable by the closed form" in out
    assert "✗ Unstable by the closed form" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_predict_gives_the_thresholds_of_theory(call):
    """At K_ref = 1 and mu = 0.5 the closed form and the fixed lag lose stability at a = 1 - mu (theory, section 3)."""
    _, out, _ = call("predict", "--eta", "1e-6", "--K", "1e5", "--mu", 0.5, "--K-ref", 1, "--json")
    reaches = {one["schedule"]: one for one in json.loads(out)["forecast"]["reaches"]}
    for schedule in ("closed_form", "fixed_lag"):
        assert reaches[schedule]["stability_a"] == pytest.approx(0.5)
        assert reaches[schedule]["stability_factor"] == pytest.approx(5.0)


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.sources, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize(
    ("command", "figures", "said"),
    [
        (["fit", "rise.csv", "--map", "reward=wins"], 1, "Plateau at"),
        (["diagnose", "hack.json"], 1, "May be confused with"),
        (["predict", "rise.csv", "--map", "reward=wins"], 1, "unstable from"),
        (["read", "hack.json"], 0, "taken from"),
    ],
)
def test_pages_stand_alone(call, logs, tmp_path, command, figures, said):
    page = tmp_path / "new" / "page.html"
    status, _, _ = call(command[0], logs / command[1], *command[2:], "--html", page)
    parsed = _Page()
    parsed.feed(page.read_text())
    assert status == 0
    assert len(parsed.sources) == figures
    assert all(source.startswith("data:image/svg+xml;base64,") for source in parsed.sources)
    assert said in " ".join(parsed.text)


def test_names_in_a_log_cannot_break_the_page(call, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("step,reward,<script>alert(1)</script>\n" + "\n".join(f"{i},{i / 30},1" for i in range(1, 31)))
    call("diagnose", log, "--html", tmp_path / "page.html")
    assert "<script>" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_plots_are_written(call, logs, tmp_path, kind):
    path = tmp_path / f"plot.{kind}"
    assert call("diagnose", logs / "hack.json", "--plot", path)[0] == 0
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[kind]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", demo.RUNS)
def test_demos_show_what_they_say(call, name):
    _, out, _ = call("demo", name, "--json")
    found = json.loads(out)["diagnosis"]
    fired = {one["group"] for one in found["numbers"] if one["verdict"] in ("warning", "critical")}
    assert fired == demo.RUNS[name].expected


def test_a_demo_can_be_kept_and_read_again(call, tmp_path):
    path = tmp_path / "kept.json"
    assert call("demo", "hard-prompts", "--write", path)[0] == 0
    assert call("diagnose", path, "-G", demo.G, "--fail-on", "critical")[0] == 2


def test_selftest_passes_and_notices_a_wrong_diagnosis(call, monkeypatch):
    status, out, _ = call("selftest")
    assert (status, out.count("ok ")) == (0, len(demo.RUNS))
    wrong = demo.RUNS["healthy"]._replace(expected=frozenset({"kl"}))
    monkeypatch.setattr(demo, "RUNS", {"healthy": wrong})
    status, out, error = call("selftest")
    assert (status, out.split()[0]) == (1, "WRONG")
    assert error.count("\n") == 1


MISTAKES = {
    "a file that is not there": (["diagnose", "no-such.json"], "no-such.json: no such file or directory"),
    "a log without a reward": (["fit", "rise.csv"], "found no reward"),
    "an unknown column": (["fit", "rise.csv", "--map", "rewrd=wins"], "rewrd"),
    "half a renaming": (["fit", "rise.csv", "--map", "reward"], "--map: found reward, expected COLUMN=KEY"),
    "a key that is not there": (["fit", "rise.csv", "--map", "reward=losses"], "losses"),
    "an unknown number": (
        ["diagnose", "hack.json", "--set", "x.warning=1"],
        "--set: found the number x, expected one of",
    ),
    "a threshold that is none": (["diagnose", "hack.json", "--set", "kl_level.warning=high"], "--set: found kl_level"),
    "a group of one": (["diagnose", "hack.json", "--group-size", "1"], "group size of 1"),
    "rewards outside their range": (["diagnose", "hack.json", "--reward-range", "0", "0.1"], "--reward-range"),
    "a run that is not there": (["diagnose", "hack.json", "--run", "9"], "found no run 9"),
    "K and a log": (["predict", "hack.json", "--K", "3"], "expected K or a log"),
    "mu of one": (["predict", "--eta", "1", "--K", "3", "--mu", "1"], "mu: found 1, expected 0 <= mu < 1"),
    "an unknown demo": (["demo", "hacking"], "demo: found hacking, expected one of healthy"),
    "a plot of no kind": (["fit", "hack.json", "--plot", "x.doc"], "--plot: found x.doc, expected a name that ends in"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence_and_status_1(call, logs, monkeypatch, name):
    monkeypatch.chdir(logs)
    arguments, said = MISTAKES[name]
    status, out, error = call(*arguments)
    assert (status, out) == (1, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error


def test_a_page_that_cannot_be_written_leaves_what_was_there(call, logs, tmp_path):
    (tmp_path / "file").write_text("kept")
    status, _, error = call("diagnose", logs / "hack.json", "--html", tmp_path / "file" / "page.html")
    assert status == 1
    assert "page.html" in error
    assert (tmp_path / "file").read_text() == "kept"


def test_help_needs_nothing_that_takes_long():
    code = (
        "import sys; sys.argv = ['grpo-dynamics', '--help']\nimport grpo_dynamics.cli as cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'pandas', 'scipy', 'numba', 'matplotlib', 'pandera') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "workflow", capture_output=True, text=True)
    assert done.stdout.strip().endswith("[]"), done.stdout + done.stderr


def test_every_command_works_without_torch(logs):
    """As after `pip install .`, which leaves the training's packages out."""
    blocked = ("torch", "transformers", "trl", "datasets", "accelerate", "lm_eval", "snakemake", "pyarrow", "peft")
    commands = [["fit", "healthy.json"], ["diagnose", "hack.json", "--html", "page.html"], ["selftest"],
                ["predict", "rise.csv", "--map", "reward=wins"], ["read", "hack.json"]]  # fmt: skip
    code = (
        "import sys\nclass Blocked:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {blocked}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocked())\nfrom grpo_dynamics import cli\n"
        f"for arguments in {commands}:\n    sys.argv = ['grpo-dynamics', *arguments]\n"
        "    try: cli.main()\n    except SystemExit as done: assert not done.code, arguments\n"
    )
    environment = {"PYTHONPATH": str(ROOT / "workflow"), "PATH": "", "NO_COLOR": "1", "HOME": str(logs)}
    done = subprocess.run([sys.executable, "-c", code], cwd=logs, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "\x1b" not in done.stdout


def test_the_package_lists_all_its_folders_and_the_default_config():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    library = ROOT / "workflow" / "grpo_dynamics"
    found = {f"grpo_dynamics.{path.parent.name}" for path in library.glob("*/__init__.py")}
    assert listed == found | {"grpo_dynamics", "grpo_dynamics.defaults"}
    assert project["tool"]["setuptools"]["package-dir"]["grpo_dynamics.defaults"] == "config"
    assert project["project"]["scripts"] == {"grpo-dynamics": "grpo_dynamics.cli:main"}
    assert config.defaults()["study"] == "cpu"
    assert re.fullmatch(r"\d+\.\d+\.\d+", project["project"]["version"])
