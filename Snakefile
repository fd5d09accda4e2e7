# The study as one workflow. The targets: all (default), bandit, runs, variants, failures, evaluations, calibration,
# figures, claims, own_runs.

import shlex
import sys
from pathlib import Path

LIBRARY = Path(workflow.basedir) / "workflow"
sys.path.insert(0, str(LIBRARY))

from grpo_dynamics import config as study_config


configfile: f"{workflow.basedir}/config/config.yaml"


report: "workflow/report/workflow.rst"


try:
    config = study_config.resolve(config, root=workflow.basedir)
except study_config.ConfigError as error:
    sys.exit(str(error))  # the line alone, without Snakemake's traceback

# Makes the library importable in every rule, also inside a conda environment.
shell.prefix(f"set -euo pipefail; export PYTHONPATH={shlex.quote(str(LIBRARY))}; ")


include: "workflow/rules/common.smk"
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
