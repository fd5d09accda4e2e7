# Runs in which a failure is induced on purpose, and what the diagnostics make of them (C13). Target: failures.

FAILURE_RUN = f"{RESULTS}/failures/{{kind}}/{{model}}/G{{G}}/seed{{seed}}"


rule failure_problems:
    input:
        script=f"{SCRIPTS}/failure_problems.py",
        code=code("tasks/ladder.py", "tasks/failures.py", "tasks/problems.py", "seeds.py"),
    output:
        f"{RESULTS}/failures/{{kind}}/train.jsonl",
    log:
        f"{RESULTS}/logs/failures/{{kind}}_problems.log",
    benchmark:
        f"{RESULTS}/benchmarks/data/failures_{{kind}}.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=lambda wildcards: settings(
            {
                "seed": config["seed"],
                "kind": wildcards.kind,
                "operands": FAILURE_KINDS[wildcards.kind]["operands"],
                "problems": config["training_data"]["problems"],
            }
        ),
    message:
        "Training problems of the runs with {wildcards.kind}"
    shell:
        "python {input.script:q} --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


use rule grpo as grpo_failure with:
    input:
        code=GRPO_CODE,
        accelerate=ACCELERATE,
        base=failure_base_ready,
        train=failure_problems,
        heldout=f"{RESULTS}/data/heldout.jsonl",
        template=chat_template,
    output:
        log=f"{FAILURE_RUN}/log.csv",
        final=touch(f"{FAILURE_RUN}/final.done"),
    log:
        f"{RESULTS}/logs/failures/{{kind}}_{{model}}_G{{G}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/failures/{{kind}}_{{model}}_G{{G}}_seed{{seed}}.tsv"
    wildcard_constraints:
        G=r"\d+",
        seed=r"\d+",
    params:
        **START,
        base=failure_base,
        folder=FAILURE_RUN,
        settings=failure_settings,
    message:
        "GRPO, {wildcards.kind}: {wildcards.model}, G = {wildcards.G}, seed {wildcards.seed}"


rule failure_diagnostics:
    input:
        script=f"{SCRIPTS}/failure_diagnostics.py",
        code=DIAGNOSTICS_CODE,
        own=code("analysis/induced.py", "analysis/live.py", "analysis/tables_failures.py"),
        logs=[f"{RESULTS}/failures/{k}/{m}/G{G}/seed{s}/log.csv" for k, m, G, s in FAILURE_CELLS],
    output:
        log=f"{RESULTS}/failures.csv",
        runs=f"{RESULTS}/failure_runs.csv",
        diagnostics=f"{RESULTS}/failure_diagnostics.csv",
        confusion=f"{RESULTS}/confusion.csv",
    log:
        f"{RESULTS}/logs/analysis/failure_diagnostics.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/failure_diagnostics.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=15),
    params:
        kinds=[cell[0] for cell in FAILURE_CELLS],
        settings=settings(
            {
                "analysis": ANALYSIS,
                "diagnostics": config["diagnostics"],
                "induces": {name: kind["induces"] for name, kind in FAILURE_KINDS.items()},
            }
        ),
    message:
        "Diagnosing the runs with induced failures"
    shell:
        "python {input.script:q} {input.logs:q} --kinds '{params.kinds}' --settings {params.settings:q}"
        " --log {output.log:q} --runs {output.runs:q} --diagnostics {output.diagnostics:q}"
        " --confusion {output.confusion:q} > {log:q} 2>&1"


rule failures:
    input:
        *rules.failure_diagnostics.output,
