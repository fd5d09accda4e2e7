# The softmax bandit: fixed point, thresholds, trajectories, stationary variance, predictions. Target: bandit.

BANDIT = config["bandit"]
BANDIT_CODE = code("theory", "bandit")
BANDIT_TABLES = [
    "fixed_point",
    "thresholds",
    "trajectories",
    "stationary_variance",
    "predictions",
    "overdamped_limit",
]


rule bandit:
    input:
        expand(f"{RESULTS}/bandit/{{table}}.csv", table=BANDIT_TABLES),
        expand(
            f"{RESULTS}/figures/bandit_{{figure}}.{{extension}}",
            figure=["trajectories", "regime_map"],
            extension=["pdf", "png"],
        ),


rule bandit_fixed_point:
    input:
        script=f"{SCRIPTS}/bandit_fixed_point.py",
        code=BANDIT_CODE,
    output:
        f"{RESULTS}/bandit/fixed_point.csv",
    log:
        f"{RESULTS}/logs/bandit/fixed_point.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/fixed_point.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        problem=settings(BANDIT["problem"]),
        settings=settings(BANDIT["fixed_point"]),
    message:
        "Finding the bandit's fixed point and measuring its stiffness K"
    shell:
        "python {input.script:q} --problem {params.problem:q} --settings {params.settings:q} "
        "--output {output:q} > {log:q} 2>&1"


rule bandit_thresholds:
    input:
        script=f"{SCRIPTS}/bandit_thresholds.py",
        code=BANDIT_CODE,
    output:
        f"{RESULTS}/bandit/thresholds.csv",
    log:
        f"{RESULTS}/logs/bandit/thresholds.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/thresholds.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        problem=settings(BANDIT["problem"]),
        settings=settings(BANDIT["thresholds"]),
    message:
        "Measuring the bandit's onset of oscillation and loss of stability over mu and K_ref"
    shell:
        "python {input.script:q} --problem {params.problem:q} --settings {params.settings:q} "
        "--output {output:q} > {log:q} 2>&1"


rule bandit_trajectories:
    input:
        script=f"{SCRIPTS}/bandit_trajectories.py",
        code=BANDIT_CODE,
    output:
        f"{RESULTS}/bandit/trajectories.csv",
    log:
        f"{RESULTS}/logs/bandit/trajectories.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/trajectories.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        problem=settings(BANDIT["problem"]),
        settings=settings(BANDIT["trajectories"]),
    message:
        "Simulating the bandit through the transition at growing K_ref"
    shell:
        "python {input.script:q} --problem {params.problem:q} --settings {params.settings:q} "
        "--output {output:q} > {log:q} 2>&1"


rule bandit_stationary_variance:
    input:
        script=f"{SCRIPTS}/bandit_stationary_variance.py",
        code=BANDIT_CODE + code("seeds.py"),
    output:
        f"{RESULTS}/bandit/stationary_variance.csv",
    log:
        f"{RESULTS}/logs/bandit/stationary_variance.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/stationary_variance.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        problem=settings(BANDIT["problem"]),
        settings=settings(BANDIT["stationary_variance"]),
        seed=config["seed"],
    message:
        "Simulating the bandit's stationary variance at growing group size G"
    shell:
        "python {input.script:q} --problem {params.problem:q} --settings {params.settings:q} --seed {params.seed} "
        "--output {output:q} > {log:q} 2>&1"


rule bandit_predictions:
    input:
        script=f"{SCRIPTS}/bandit_predictions.py",
        code=BANDIT_CODE + code("seeds.py"),
    output:
        f"{RESULTS}/bandit/predictions.csv",
    log:
        f"{RESULTS}/logs/bandit/predictions.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/predictions.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        problem=settings(BANDIT["problem"]),
        settings=settings(BANDIT["predictions"]),
        seed=config["seed"],
    message:
        "Predicting the bandit's mean trajectories from the hyperparameters and K, with no fit"
    shell:
        "python {input.script:q} --problem {params.problem:q} --settings {params.settings:q} --seed {params.seed} "
        "--output {output:q} > {log:q} 2>&1"


rule bandit_overdamped_limit:
    input:
        script=f"{SCRIPTS}/bandit_overdamped_limit.py",
        code=BANDIT_CODE,
    output:
        f"{RESULTS}/bandit/overdamped_limit.csv",
    log:
        f"{RESULTS}/logs/bandit/overdamped_limit.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/overdamped_limit.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(BANDIT["overdamped_limit"]),
    message:
        "Comparing the three-phase law with its overdamped limit, the single exponential"
    shell:
        "python {input.script:q} --settings {params.settings:q} " "--output {output:q} > {log:q} 2>&1"


rule figure_bandit_trajectories:
    input:
        script=f"{SCRIPTS}/figure_bandit_trajectories.py",
        code=code(
            "theory",
            "bandit/tables.py",
            "figures/style.py",
            "figures/bandit.py",
        ),
        trajectories=f"{RESULTS}/bandit/trajectories.csv",
    output:
        pdf=f"{RESULTS}/figures/bandit_trajectories.pdf",
        png=report(
            f"{RESULTS}/figures/bandit_trajectories.png",
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
            "figures/bandit.py",
        ),
        thresholds=f"{RESULTS}/bandit/thresholds.csv",
    output:
        pdf=f"{RESULTS}/figures/bandit_regime_map.pdf",
        png=report(
            f"{RESULTS}/figures/bandit_regime_map.png",
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
