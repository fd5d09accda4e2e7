# What all rules share: folders, the code a rule depends on, resources that grow with each attempt.

import json
import os
import re

from snakemake.iocontainers import Wildcards

RESULTS = f"results/{config['study']}"
# Relative to the working directory, since they are inputs: a project that is moved or copied reruns nothing.
ROOT = os.path.relpath(workflow.basedir)
SCRIPTS = os.path.normpath(f"{ROOT}/workflow/scripts")
ENVS = f"{workflow.basedir}/envs"


def code(*names):
    """Source files that a rule's result depends on, as inputs, since editing a module reruns nothing by itself.

    A name is a package or module below workflow/grpo_dynamics ("theory", "seeds.py"), or "benchmarks", the folder of
    lm-eval's task files.
    Left out on purpose: the schemas (modules named tables...), which say what a table holds, since editing a description
    must not retrain a model; and what shapes no result: cells.py, command.py, config.py, files.py, progress.py, provenance.py.
    """
    files = []
    for name in names:
        path = LIBRARY / name if name == "benchmarks" else LIBRARY / "grpo_dynamics" / name
        if not path.exists():
            raise FileNotFoundError(f"code(): {path} does not exist")
        files += sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [os.path.relpath(path) for path in files]


def grow(mem_mb, runtime, gpu=0, stop_before=None):
    """Memory in MB and minutes of run time that double with each attempt of a job up to the limits of the config.

    GPUs stay, and so do the minutes before its time limit at which a training run stops to be queued again.
    """
    limits = config["resources"]["limits"]
    return {
        "gpu": gpu,
        **({} if stop_before is None else {"stop_before": stop_before}),
        "mem_mb": lambda wildcards, attempt: study_config.grown(mem_mb, attempt, limits["mem_mb"]),
        "runtime": lambda wildcards, attempt: study_config.grown(runtime, attempt, limits["runtime"]),
    }


def asked(stage):
    """What the jobs of training or of evaluation ask for, by the config; those of several nodes start srun themselves.

    GPUs are those of one node, or of each node: a number for the whole job SLURM spreads over nodes as it likes. The task
    per node is for Snakemake's plugin, which wants to be told of tasks where there is `mpi`.
    """
    resources = grow(**{name: value for name, value in config["resources"][stage].items() if name != "threads"})
    nodes = config["launch"]["nodes"] if stage == "training" else 1
    if nodes == 1:
        return resources | {"nodes": 1}
    gpus = resources.pop("gpu") // nodes
    own = {"gres": f"gpu:{gpus}", "tasks_per_gpu": 0} if gpus else {}
    return resources | {"nodes": nodes, "mpi": "srun", "tasks": nodes, **own}


def asked_for(jobs):
    """By Snakemake's number of a job: its rule, and the memory and time that its last try asked for."""
    names = ["mem_mb", "runtime"]
    return {job.jobid: {"rule": job.name} | {name: job.resources.get(name) for name in names} for job in jobs}


def fixed_resources(workflow):
    """By rule, the resources that the command line or its profile fixes with --set-resources."""
    fixed = workflow.resource_settings.overwrite_resources
    return {rule: {name: str(value.raw) for name, value in resources.items()} for rule, resources in fixed.items()}


def settings(value):
    """A part of the config as one line of JSON, for a rule's params: a change of it reruns the rule."""
    return json.dumps(value, sort_keys=True)


MODELS = config["models"]
GROUP_SIZES = config["group_sizes"]
SEEDS = config["seeds"]
VARIANT_CELLS = cells.variant_cells(config)
FAILURE_CELLS = cells.failure_cells(config)
FAILURE_KINDS = cells.failure_kinds(config)
PRETRAINED = [name for name in MODELS if "pretraining" in config["catalogue"][name]]
FROM_HUB = [name for name in MODELS if "hub" in config["catalogue"][name]]
HUB_DATA = sources.hub_data(config)
TRAINING_FILES = sources.training_files(config, RESULTS)
BENCHMARK_FILES = sources.benchmark_files(config, RESULTS)


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
        return [f"{RESULTS}/models/{wildcards.model}/download.json"]
    return [f"{base_model(wildcards)}/config.json"]


def chat_template(wildcards):
    """The model's chat template, where the config gives one."""
    template = config["catalogue"][wildcards.model].get("chat_template")
    return [template] if template else []


def variant_settings(wildcards):
    """Settings of a variant's run, as those of the study's own runs."""
    grpo = cells.variant_grpo(config, wildcards.variant, int(wildcards.G))
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
    grpo = cells.failure_grpo(config, wildcards.kind)
    return settings({"seed": config["seed"], "grpo": grpo, "variant": f"failure {wildcards.kind}"})


def own_log(wildcards):
    """The files of a log of one's own: those in a folder, since a file that grows does not change its folder's time."""
    path = Path(config["own_runs"][wildcards.own]["path"])
    if not path.is_dir():
        return [str(path)]
    logs = [*path.rglob("trainer_state.json"), *path.rglob("*tfevents*"), *filter(Path.is_file, path.iterdir())]
    return sorted(set(map(str, logs))) or [str(path)]


def evaluation_settings(wildcards):
    """Settings of the evaluation of a model's checkpoints.

    The files are named and their revisions left out: where a file comes from is the business of its download.
    """
    chosen = cells.evaluation_settings(config, wildcards.model) | {"data_files": BENCHMARK_FILES}
    return settings({name: chosen[name] for name in chosen if name != "revisions"} | {"seed": config["seed"]})


def evaluation_code():
    """The scorer, the loading of benchmarks, the evaluation, and lm-eval's task files."""
    tasks = ["scoring", "numbers", "latex", "benchmarks", "problems", "chat"]
    modules = code("evaluation", "seeds.py", "benchmarks", *(f"tasks/{name}.py" for name in tasks))
    return modules + sorted(os.path.relpath(path) for path in (LIBRARY / "benchmarks").glob("*yaml"))


def evaluated(file):
    """A file of every checkpoint's evaluation."""
    return [
        f"{RESULTS}/evaluations/{model}/{checkpoint}/{file}"
        for model in MODELS
        for checkpoint in ["base", *(f"G{G}/seed{seed}" for G in GROUP_SIZES for seed in SEEDS)]
    ]


def jobs_behind(targets):
    """All jobs that make `targets` from nothing, as pairs of a rule and its wildcards.

    The files that exist do not matter, unlike in the DAG: the plan is of the whole study.
    """
    jobs, seen, waiting = {}, set(), [str(target) for target in targets]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for maker in workflow.rules:
            if maker.is_producer(path):
                wildcards = Wildcards(fromdict=maker.get_wildcards(path))
                key = (maker.name, *sorted(wildcards.items()))
                if key not in jobs:
                    jobs[key] = (maker, wildcards)
                    waiting += map(str, maker.expand_input(wildcards)[0])
                break
    return list(jobs.values())


def benchmark_files(targets):
    """The benchmark files of all jobs behind `targets`."""
    found = (rule.expand_benchmark(wildcards) for rule, wildcards in jobs_behind(targets))
    return sorted(str(path) for path in found if path is not None)


def first_ask(rule, wildcards):
    """GPUs, cores, MB and minutes that a job asks for at its first attempt."""
    others = set(rule.resources) - {"_cores", "gpu", "gres", "nodes", "mem_mb", "runtime"}
    found = rule.expand_resources(wildcards, [], attempt=1, skip_evaluation=others)
    asked = {name: found[name] for name in ("mem_mb", "runtime")}
    gpus = found.get("gpu", 0)
    if "gres" in found.keys():  # several nodes
        gpus = found["nodes"] * int(found["gres"].rpartition(":")[2])
    return {**asked, "gpu": gpus, "threads": found["_cores"]}


def planned_jobs(wildcards):
    """The study's jobs for the plan, as JSON: those that differ in nothing but the seed are counted together."""
    counted = {}
    order = {rule.name: place for place, rule in enumerate(workflow.rules)}
    for rule, found in sorted(jobs_behind(rules.all.input), key=lambda job: (order[job[0].name], *job[1])):
        cell = {"stage": rule.name, "model": found.get("model"), "G": int(found.G) if "G" in found.keys() else None}
        # A run with an induced failure is a variant of its kind.
        cell |= {"variant": found.get("variant", found.get("kind")), **first_ask(rule, found)}
        counted[settings(cell)] = counted.get(settings(cell), 0) + 1
    jobs = [{**json.loads(cell), "jobs": number} for cell, number in counted.items()]
    bases = {name: base_model(Wildcards(fromdict={"model": name})) for name in MODELS}
    return settings({"jobs": jobs, "bases": bases})
