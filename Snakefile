# The study as one workflow. The targets: all (default), bandit, runs, variants, failures, evaluations, calibration,
# figures, claims, own_runs, plan, download.

import shlex
import sys
from pathlib import Path

LIBRARY = Path(workflow.basedir) / "workflow"
sys.path.insert(0, str(LIBRARY))

from grpo_dynamics import cells, recovery, sources
from grpo_dynamics import config as study_config
from grpo_dynamics import manifest as study_manifest


configfile: f"{workflow.basedir}/config/config.yaml"


report: "workflow/report/workflow.rst"


try:
    config = study_config.resolve(config, root=workflow.basedir)
except study_config.ConfigError as error:
    sys.exit(str(error))  # the line alone, without Snakemake's traceback

# Makes the library importable in every rule, also inside a conda environment; and no rule asks the hub but
# the downloads, which undo it.
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH={shlex.quote(str(LIBRARY))}; "
    "export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1; "
)


if config["container"]:

    containerized: config["container"]


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/bandit.smk"
include: "workflow/rules/bandit_figures.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/failures.smk"
include: "workflow/rules/own_runs.smk"
include: "workflow/rules/groups.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/predictions.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/claims.smk"


# What the study as a whole makes.
STUDY = [
    *rules.bandit.input,
    *rules.figures.input,
    f"{RESULTS}/runs.csv",
    f"{RESULTS}/variants.csv",
    f"{RESULTS}/evaluations.csv",
    f"{RESULTS}/power.csv",
    f"{RESULTS}/claims.csv",
    *rules.table_pages.input,
    *rules.own_runs.input,
]


include: "workflow/rules/summary.smk"


rule all:
    default_target: True
    input:
        STUDY,
        f"{RESULTS}/benchmarks.csv",
        f"{RESULTS}/manifest.json",


include: "workflow/rules/plan.smk"


# Whatever was asked for, and also after a failure, the results folder says what it was made with. Neither a dry run nor a
# run with nothing to do comes here.
onsuccess:
    study_manifest.write(config, RESULTS)


onerror:
    study_manifest.write(config, RESULTS)
    # What happened to each failed job, and the command that goes on; `log` are the logs of this invocation.
    print(
        recovery.advice(
            "".join(Path(file).read_text() for file in log),
            Path.cwd(),
            sys.argv,
            asked_for(workflow.dag.jobs),
            config["resources"]["limits"],
            fixed_resources(workflow),
        ),
        file=sys.stderr,
    )
