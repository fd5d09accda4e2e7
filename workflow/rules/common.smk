# What all rules share: folders, the code a rule depends on, resources that grow with each attempt.

import json
import re

RESULTS = f"results/{config['study']}"
SCRIPTS = f"{workflow.basedir}/workflow/scripts"
ENVS = f"{workflow.basedir}/envs"


def code(*names):
    """Source files that a rule's result depends on, as inputs, since editing a module reruns nothing by itself.

    A name is a package or module below workflow/grpo_dynamics ("theory", "seeds.py") or a script ("scripts/fits.py").
    tables.py is left out on purpose: it says what a table holds, and editing a description must not retrain a model.
    """
    files = []
    for name in names:
        path = LIBRARY / name if name.startswith(("scripts/", "benchmarks")) else LIBRARY / "grpo_dynamics" / name
        if not path.exists():
            raise WorkflowError(f"code(): {path} does not exist")
        files += sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [str(path) for path in files]


def grow(mem_mb, runtime, gpu=0):
    """Memory in MB and minutes of run time that double with each attempt of a job, and GPUs, which do not."""
    return {
        "gpu": gpu,
        "mem_mb": lambda wildcards, attempt: mem_mb * 2 ** (attempt - 1),
        "runtime": lambda wildcards, attempt: runtime * 2 ** (attempt - 1),
    }


def settings(value):
    """A part of the config as one line of JSON, for a rule's params: a change of it reruns the rule."""
    return json.dumps(value, sort_keys=True)


MODELS = config["models"]
GROUP_SIZES = config["group_sizes"]
SEEDS = config["seeds"]
PRETRAINED = [name for name in MODELS if "pretraining" in config["catalogue"][name]]
FROM_HUB = [name for name in MODELS if "hub" in config["catalogue"][name]]


def one_of(names):
    """A wildcard constraint that admits exactly these names."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


wildcard_constraints:
    model=one_of(MODELS),
    G=one_of(GROUP_SIZES),
    seed=one_of(SEEDS),
    benchmark=one_of(config["evaluation"]["benchmarks"]),
