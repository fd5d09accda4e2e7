# The bandit's figures: a rule per figure, each drawn from tables alone. Target: bandit (the bandit's tables too).

FIGURES = f"{RESULTS}/figures"
BANDIT_FIGURES = [
    "bandit_trajectories",
    "bandit_regime_map",
    "bandit_threshold_ratio",
    "bandit_stationary_variance",
    "bandit_drift",
    "bandit_finite_step",
]


rule bandit:
    input:
        expand(f"{RESULTS}/bandit/{{table}}.csv", table=BANDIT_TABLES),
        expand(f"{FIGURES}/{{name}}.{{ext}}", name=BANDIT_FIGURES, ext=["pdf", "png"]),


rule figure_bandit_trajectories:
    input:
        script=f"{SCRIPTS}/figure_bandit_trajectories.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit.py",
        ),
        trajectories=f"{RESULTS}/bandit/trajectories.csv",
    output:
        pdf=f"{FIGURES}/bandit_trajectories.pdf",
        png=report(
            f"{FIGURES}/bandit_trajectories.png",
            caption="../report/bandit_trajectories.rst",
            category="Bandit",
            labels={"result": "Bandit trajectories", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_trajectories.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_trajectories.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the bandit's trajectories through the transition"
    shell:
        "python {input.script:q} --trajectories {input.trajectories:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"


rule figure_bandit_regime_map:
    input:
        script=f"{SCRIPTS}/figure_bandit_regime_map.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit.py",
        ),
        thresholds=f"{RESULTS}/bandit/thresholds.csv",
    output:
        pdf=f"{FIGURES}/bandit_regime_map.pdf",
        png=report(
            f"{FIGURES}/bandit_regime_map.png",
            caption="../report/bandit_regime_map.rst",
            category="Bandit",
            labels={"result": "Bandit regime map", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_regime_map.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_regime_map.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the bandit's regime map"
    shell:
        "python {input.script:q} --thresholds {input.thresholds:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"


rule figure_bandit_threshold_ratio:
    input:
        script=f"{SCRIPTS}/figure_bandit_threshold_ratio.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit.py",
        ),
        thresholds=f"{RESULTS}/bandit/thresholds.csv",
    output:
        pdf=f"{FIGURES}/bandit_threshold_ratio.pdf",
        png=report(
            f"{FIGURES}/bandit_threshold_ratio.png",
            caption="../report/bandit_threshold_ratio.rst",
            category="Bandit",
            labels={"result": "Bandit threshold ratios", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_threshold_ratio.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_threshold_ratio.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the bandit's measured thresholds over the closed form"
    shell:
        "python {input.script:q} --thresholds {input.thresholds:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"


rule figure_bandit_stationary_variance:
    input:
        script=f"{SCRIPTS}/figure_bandit_stationary_variance.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit_groups.py",
        ),
        variance=f"{RESULTS}/bandit/stationary_variance.csv",
    output:
        pdf=f"{FIGURES}/bandit_stationary_variance.pdf",
        png=report(
            f"{FIGURES}/bandit_stationary_variance.png",
            caption="../report/bandit_stationary_variance.rst",
            category="Bandit",
            labels={"result": "Bandit stationary variance", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_stationary_variance.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_stationary_variance.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the bandit's stationary variance against G"
    shell:
        "python {input.script:q} --variance {input.variance:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"


rule figure_bandit_drift:
    input:
        script=f"{SCRIPTS}/figure_bandit_drift.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit_groups.py",
        ),
        drift=f"{RESULTS}/bandit/drift.csv",
    output:
        pdf=f"{FIGURES}/bandit_drift.pdf",
        png=report(
            f"{FIGURES}/bandit_drift.png",
            caption="../report/bandit_drift.rst",
            category="Bandit",
            labels={"result": "Bandit drift", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_drift.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_drift.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing the drift and noise of the bandit's groups"
    shell:
        "python {input.script:q} --drift {input.drift:q} --pdf {output.pdf:q} " "--png {output.png:q} > {log:q} 2>&1"


rule figure_bandit_finite_step:
    input:
        script=f"{SCRIPTS}/figure_bandit_finite_step.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit_looks.py",
            "figures/bandit_finite_step.py",
        ),
        finite_step=f"{RESULTS}/bandit/finite_step.csv",
    output:
        pdf=f"{FIGURES}/bandit_finite_step.pdf",
        png=report(
            f"{FIGURES}/bandit_finite_step.png",
            caption="../report/bandit_finite_step.rst",
            category="Bandit",
            labels={"result": "Bandit finite step", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_bandit_finite_step.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_bandit_finite_step.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "Drawing where the second-order expansion of the bandit's update breaks down"
    shell:
        "python {input.script:q} --finite-step {input.finite_step:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"
