# Evaluation: every base model and every run's last checkpoint, on all benchmarks of the config.
# Makes evaluations.csv (accuracies) and evaluations/items.parquet (every completion). Target: evaluations.

EVALUATION = {**config["evaluation"], "seed": config["seed"]}


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


rule evaluate_base:
    input:
        model=base_model_ready,
        data=evaluation_data(),
        code=evaluation_code(),
    output:
        completions=f"{RESULTS}/evaluations/{{model}}/base/items.parquet",
        summary=f"{RESULTS}/evaluations/{{model}}/base/summary.csv",
    log:
        f"{RESULTS}/logs/evaluation/{{model}}/base.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/{{model}}/base.tsv"
    conda:
        f"{ENVS}/evaluation.yaml"
    threads: 1
    resources:
        **grow(**config["resources"]["evaluation"]),
    params:
        checkpoint=base_model,
        data_dir=f"{RESULTS}/data/ladder",
        settings=settings(EVALUATION),
    message:
        "Evaluating the base model of {wildcards.model} on all benchmarks; progress: {log}"
    shell:
        "export OMP_NUM_THREADS={threads}; "
        "python -m grpo_dynamics.evaluation.run --checkpoint {params.checkpoint:q} --model {wildcards.model:q} "
        "--settings {params.settings:q} --data-dir {params.data_dir:q} --items {output.completions:q} "
        "--summary {output.summary:q} 2> {log:q} | tee -a {log:q}"


rule evaluate_run:
    input:
        base=base_model_ready,
        final=f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/final.done",
        data=evaluation_data(),
        code=evaluation_code(),
    output:
        completions=f"{RESULTS}/evaluations/{{model}}/G{{G}}/seed{{seed}}/items.parquet",
        summary=f"{RESULTS}/evaluations/{{model}}/G{{G}}/seed{{seed}}/summary.csv",
    log:
        f"{RESULTS}/logs/evaluation/{{model}}/G{{G}}/seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/{{model}}/G{{G}}/seed{{seed}}.tsv"
    conda:
        f"{ENVS}/evaluation.yaml"
    threads: 1
    resources:
        **grow(**config["resources"]["evaluation"]),
    params:
        checkpoint=f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/final",
        data_dir=f"{RESULTS}/data/ladder",
        settings=settings(EVALUATION),
    message:
        "Evaluating {wildcards.model}, trained with G = {wildcards.G} and seed {wildcards.seed}, on all benchmarks; progress: {log}"
    shell:
        "export OMP_NUM_THREADS={threads}; "
        "python -m grpo_dynamics.evaluation.run --checkpoint {params.checkpoint:q} --model {wildcards.model:q} "
        "--group-size {wildcards.G} --seed {wildcards.seed} --settings {params.settings:q} "
        "--data-dir {params.data_dir:q} --items {output.completions:q} --summary {output.summary:q} 2> {log:q} | tee -a {log:q}"


rule evaluations:
    input:
        summaries=evaluated("summary.csv"),
        completions=evaluated("items.parquet"),
        code=code("scripts/evaluations.py"),
    output:
        evaluations=f"{RESULTS}/evaluations.csv",
        completions=f"{RESULTS}/evaluations/items.parquet",
    log:
        f"{RESULTS}/logs/evaluation/evaluations.log",
    benchmark:
        f"{RESULTS}/benchmarks/evaluation/evaluations.tsv"
    conda:
        f"{ENVS}/evaluation.yaml"
    threads: 1
    resources:
        **grow(mem_mb=2000, runtime=10),
    params:
        folders=lambda wildcards, input: [str(Path(file).parent) for file in input.summaries],
    message:
        "Collecting the evaluations of all checkpoints"
    shell:
        "python {SCRIPTS}/evaluations.py --evaluations {output.evaluations:q} --items {output.completions:q} "
        "{params.folders:q} > {log:q} 2>&1"
