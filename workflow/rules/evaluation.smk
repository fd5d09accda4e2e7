# Evaluation: every base model and every run's last checkpoint, on all benchmarks of the config.
# Makes evaluations.csv and evaluations_by_group.csv (accuracies) and evaluations/items.parquet (every completion).
# Target: evaluations.


rule evaluate_base:
    input:
        model=base_model_ready,
        template=chat_template,
        data=BENCHMARK_FILES.values(),
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
    threads: config["resources"]["evaluation"]["threads"]
    resources:
        **asked("evaluation"),
    params:
        checkpoint=base_model,
        template=START["template"],
        settings=evaluation_settings,
    message:
        "Evaluating the base model of {wildcards.model} on all benchmarks; progress: {log}"
    shell:
        "rm -f {log:q}; export OMP_NUM_THREADS={threads}; "
        "python -m grpo_dynamics.evaluation.run --checkpoint {params.checkpoint:q} --model {wildcards.model:q} "
        "{params.template:q} --settings {params.settings:q} --items {output.completions:q} "
        "--summary {output.summary:q} 2>> {log:q} | tee -a {log:q}"


rule evaluate_run:
    input:
        base=base_model_ready,
        final=f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/final.done",
        data=BENCHMARK_FILES.values(),
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
    threads: config["resources"]["evaluation"]["threads"]
    resources:
        **asked("evaluation"),
    params:
        checkpoint=lambda wildcards, input: str(Path(input.final).parent / "final"),
        settings=evaluation_settings,
    message:
        "Evaluating {wildcards.model}, trained with G = {wildcards.G} and seed {wildcards.seed}, on all benchmarks; progress: {log}"
    shell:
        "rm -f {log:q}; export OMP_NUM_THREADS={threads}; "
        "python -m grpo_dynamics.evaluation.run --checkpoint {params.checkpoint:q} --model {wildcards.model:q} "
        "--group-size {wildcards.G} --seed {wildcards.seed} --settings {params.settings:q} "
        "--items {output.completions:q} --summary {output.summary:q} 2>> {log:q} | tee -a {log:q}"


rule evaluations:
    input:
        script=f"{SCRIPTS}/evaluations.py",
        summaries=evaluated("summary.csv"),
        completions=evaluated("items.parquet"),
        code=code("evaluation/summary.py"),
    output:
        evaluations=f"{RESULTS}/evaluations.csv",
        groups=f"{RESULTS}/evaluations_by_group.csv",
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
        "python {input.script:q} --evaluations {output.evaluations:q} --groups {output.groups:q} --items {output.completions:q} "
        "{params.folders:q} > {log:q} 2>&1"
