# What all rules share: folders, the code a rule depends on, resources that grow with each attempt.

import json
import re

RESULTS = f"results/{config['study']}"
SCRIPTS = f"{workflow.basedir}/workflow/scripts"
ENVS = f"{workflow.basedir}/envs"


def code(*names):
    """Source files that a rule's result depends on, as inputs, since editing a module reruns nothing by itself.

    A name is a package or module below workflow/grpo_dynamics ("theory", "seeds.py"), or "benchmarks", the folder of
    lm-eval's task files.
    tables.py is left out on purpose: it says what a table holds, and editing a description must not retrain a model.
    """
    files = []
    for name in names:
        path = LIBRARY / name if name == "benchmarks" else LIBRARY / "grpo_dynamics" / name
        if not path.exists():
            raise FileNotFoundError(f"code(): {path} does not exist")
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
VARIANT_CELLS = study_config.variant_cells(config)
FAILURE_CELLS = study_config.failure_cells(config)
FAILURE_KINDS = study_config.failure_kinds(config)
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
    variant=one_of(config["variants"]),
    kind=one_of(FAILURE_KINDS),


def base_model(wildcards):
    """Folder of the base model's checkpoint."""
    entry = config["catalogue"][wildcards.model]
    return entry["path"] if "path" in entry else f"{RESULTS}/models/{wildcards.model}/base"


def base_model_ready(wildcards):
    """What must exist before the base model can be used."""
    if wildcards.model in PRETRAINED:
        return [f"{RESULTS}/models/{wildcards.model}/base.done"]
    if wildcards.model in FROM_HUB:
        return [f"{RESULTS}/models/{wildcards.model}/download.done"]
    return [f"{base_model(wildcards)}/config.json"]


def variant_settings(wildcards):
    """Settings of a variant's run, as those of the study's own runs."""
    grpo = study_config.variant_grpo(config, wildcards.variant, int(wildcards.G))
    return settings({"seed": config["seed"], "grpo": grpo, "variant": wildcards.variant})


def failure_base(wildcards):
    """Folder of the checkpoint that a run with an induced failure starts from."""
    kind = FAILURE_KINDS[wildcards.kind]
    if kind.get("trained"):
        seed = SEEDS[kind["seeds"].index(int(wildcards.seed)) % len(SEEDS)]
        return f"{RESULTS}/runs/{wildcards.model}/G{wildcards.G}/seed{seed}/final"
    return base_model(wildcards)


def failure_base_ready(wildcards):
    """What must exist before that checkpoint can be used."""
    if FAILURE_KINDS[wildcards.kind].get("trained"):
        return [f"{failure_base(wildcards)}.done"]
    return base_model_ready(wildcards)


def failure_problems(wildcards):
    """Training problems of a run with an induced failure."""
    own = "operands" in FAILURE_KINDS[wildcards.kind]
    return f"{RESULTS}/failures/{wildcards.kind}/train.jsonl" if own else f"{RESULTS}/data/train.jsonl"


def failure_settings(wildcards):
    """Settings of a run with an induced failure, as those of the study's own runs."""
    grpo = study_config.failure_grpo(config, wildcards.kind)
    return settings({"seed": config["seed"], "grpo": grpo, "variant": f"failure {wildcards.kind}"})


def own_log(wildcards):
    """The files of a log of one's own: those in a folder, since a file that grows does not change its folder's time."""
    path = Path(config["own_runs"][wildcards.own]["path"])
    if not path.is_dir():
        return [str(path)]
    logs = [*path.rglob("trainer_state.json"), *path.rglob("*tfevents*"), *filter(Path.is_file, path.iterdir())]
    return sorted(set(map(str, logs))) or [str(path)]


def evaluation_data():
    """Files that hold benchmarks: the generated ladder's, and local files named in the config."""
    names = config["evaluation"]["benchmarks"]
    local = config["evaluation"]["data_files"]
    ladder = [
        f"{RESULTS}/data/ladder/{name}.jsonl" for name in names if name.startswith("ladder_") and name not in local
    ]
    return ladder + [local[name] for name in names if name in local]


def evaluation_code():
    """The scorer, the loading of benchmarks, the evaluation, and lm-eval's task files."""
    tasks = ["scoring", "numbers", "latex", "benchmarks", "problems"]
    modules = code("evaluation", "seeds.py", "benchmarks", *(f"tasks/{name}.py" for name in tasks))
    return modules + sorted(str(path) for path in (LIBRARY / "benchmarks").glob("*yaml"))


def evaluated(file):
    """A file of every checkpoint's evaluation."""
    return [
        f"{RESULTS}/evaluations/{model}/{checkpoint}/{file}"
        for model in MODELS
        for checkpoint in ["base", *(f"G{G}/seed{seed}" for G in GROUP_SIZES for seed in SEEDS)]
    ]
