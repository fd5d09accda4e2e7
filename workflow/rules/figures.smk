# Figures of the runs: a rule per figure, each drawn from tables alone. Target: figures (the bandit's included).

FIGURE_NAMES = [
    "reward_curves",
    "group_size",
    "predictions",
    "transfer",
    "diagnostics",
    "damping",
    "calibration",
    *(["failures", "confusion"] if FAILURE_CELLS else []),
]
FIGURE_SETTINGS = settings(
    {
        # Pairs, since settings() sorts keys and the order of the models is that of the config.
        "labels": [(model, config["catalogue"][model].get("label", model)) for model in MODELS],
        "alpha": config["analysis"]["alpha"],
    }
)


rule figures:
    input:
        expand(f"{FIGURES}/{{name}}.{{ext}}", name=FIGURE_NAMES + BANDIT_FIGURES, ext=["pdf", "png"]),


rule figure_reward_curves:
    input:
        script=f"{SCRIPTS}/figure_reward_curves.py",
        code=FIT_CODE + code("figures/style.py", "figures/reward_curves.py"),
        runs=f"{RESULTS}/runs.csv",
        fits=f"{RESULTS}/fits.csv",
    output:
        pdf=f"{FIGURES}/reward_curves.pdf",
        png=report(
            f"{FIGURES}/reward_curves.png",
            caption="../report/reward_curves.rst",
            category="Training",
            labels={"result": "Reward curves and fits", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_reward_curves.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_reward_curves.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=FIGURE_SETTINGS,
    message:
        "Drawing the reward curves with the fitted law"
    shell:
        "python {input.script:q} --runs {input.runs:q} --fits {input.fits:q} "
        "--settings {params.settings:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_group_size:
    input:
        script=f"{SCRIPTS}/figure_group_size.py",
        code=code(
            "runlog/log.py",
            "analysis/series.py",
            "analysis/tables_groups.py",
            "figures/style.py",
            "figures/group_size.py",
        ),
        runs=f"{RESULTS}/runs.csv",
        variants=f"{RESULTS}/variants.csv",
        comparison=f"{RESULTS}/group_size.csv",
    output:
        pdf=f"{FIGURES}/group_size.pdf",
        png=report(
            f"{FIGURES}/group_size.png",
            caption="../report/group_size.rst",
            category="Training",
            labels={"result": "Group size", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_group_size.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_group_size.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(
            {**json.loads(FIGURE_SETTINGS), "equivalence_margin": config["analysis"]["equivalence_margin"]}
        ),
    message:
        "Drawing what the group size changes"
    shell:
        "python {input.script:q} --runs {input.runs:q} --variants {input.variants:q} --comparison {input.comparison:q} "
        "--settings {params.settings:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_transfer:
    input:
        script=f"{SCRIPTS}/figure_transfer.py",
        code=code("figures/style.py", "figures/transfer.py"),
        gains=f"{RESULTS}/transfer.csv",
        summary=f"{RESULTS}/transfer_summary.csv",
    output:
        pdf=f"{FIGURES}/transfer.pdf",
        png=report(
            f"{FIGURES}/transfer.png",
            caption="../report/transfer.rst",
            category="Transfer",
            labels={"result": "Transfer", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_transfer.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_transfer.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=FIGURE_SETTINGS,
    message:
        "Drawing the gains on all benchmarks"
    shell:
        "python {input.script:q} --gains {input.gains:q} --summary {input.summary:q} "
        "--settings {params.settings:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_diagnostics:
    input:
        script=f"{SCRIPTS}/figure_diagnostics.py",
        code=DIAGNOSTICS_CODE + code("analysis/tables.py", "figures/style.py", "figures/diagnostics.py"),
        table=f"{RESULTS}/diagnostics.csv",
    output:
        pdf=f"{FIGURES}/diagnostics.pdf",
        png=report(
            f"{FIGURES}/diagnostics.png",
            caption="../report/diagnostics.rst",
            category="Training",
            labels={"result": "Diagnostics", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_diagnostics.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_diagnostics.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=FIGURE_SETTINGS,
    message:
        "Drawing the diagnostics of every run"
    shell:
        "python {input.script:q} --table {input.table:q} "
        "--settings {params.settings:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_damping:
    input:
        script=f"{SCRIPTS}/figure_damping.py",
        code=FIT_CODE + code("figures/style.py", "figures/damping.py"),
        fits=f"{RESULTS}/fits.csv",
    output:
        pdf=f"{FIGURES}/damping.pdf",
        png=report(
            f"{FIGURES}/damping.png",
            caption="../report/damping.rst",
            category="Training",
            labels={"result": "Damping ratios", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_damping.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_damping.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=FIGURE_SETTINGS,
    message:
        "Drawing the damping ratios"
    shell:
        "python {input.script:q} --fits {input.fits:q} "
        "--settings {params.settings:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_failures:
    input:
        script=f"{SCRIPTS}/figure_failures.py",
        code=code("analysis/tables.py", "analysis/tables_failures.py", "figures/style.py", "figures/failures.py"),
        log=f"{RESULTS}/failures.csv",
        runs=f"{RESULTS}/failure_runs.csv",
    output:
        pdf=f"{FIGURES}/failures.pdf",
        png=report(
            f"{FIGURES}/failures.png",
            caption="../report/failures.rst",
            category="Diagnostics",
            labels={"result": "Induced failures", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_failures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_failures.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the runs with induced failures"
    shell:
        "python {input.script:q} --log {input.log:q} --runs {input.runs:q} "
        "--pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule figure_confusion:
    input:
        script=f"{SCRIPTS}/figure_confusion.py",
        code=code("analysis/tables.py", "analysis/tables_failures.py", "figures/style.py", "figures/failures.py"),
        table=f"{RESULTS}/confusion.csv",
    output:
        pdf=f"{FIGURES}/confusion.pdf",
        png=report(
            f"{FIGURES}/confusion.png",
            caption="../report/confusion.rst",
            category="Diagnostics",
            labels={"result": "Confusion matrix", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_confusion.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_confusion.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        alpha=config["analysis"]["alpha"],
    message:
        "Drawing the confusion matrix"
    shell:
        "python {input.script:q} --table {input.table:q} --alpha {params.alpha} "
        "--pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"
