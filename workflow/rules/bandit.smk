# The softmax bandit's tables, each a sweep with settings of its own in the config. Target: bandit (bandit_figures.smk).

BANDIT = config["bandit"]
BANDIT_TABLES = {
    "fixed_point": "Finding the bandit's fixed point and measuring its stiffness K in three ways",
    "thresholds": "Measuring the bandit's onset of oscillation and loss of stability over schedule, mu and K_ref",
    "trajectories": "Simulating the bandit through the transition at growing K_ref",
    "finite_step": "Comparing the bandit with the oscillator at growing steps",
    "clipping": "Simulating what the clipped ratio does on both sides of the stability threshold",
    "drift": "Sampling the drift and noise of groups at growing group size G",
    "stationary_variance": "Simulating the bandit's stationary variance at growing group size G",
    "arms": "Comparing bandits with a logit per arm with the one-logit bandit",
    "predictions": "Predicting the bandit's mean trajectories from the hyperparameters and K, with no fit",
    "overdamped_limit": "Comparing the three-phase law with its overdamped limit, the single exponential",
}
# Tables whose replicas sample groups; they spread over threads and need a seed.
BANDIT_SAMPLED = {"fixed_point", "drift", "stationary_variance", "arms", "predictions"}


rule bandit_table:
    input:
        script=f"{SCRIPTS}/bandit_table.py",
        code=code("theory", "bandit", "seeds.py", "progress.py"),
    output:
        f"{RESULTS}/bandit/{{table}}.csv",
    log:
        f"{RESULTS}/logs/bandit/{{table}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/bandit/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(BANDIT_TABLES),
    conda:
        f"{ENVS}/theory.yaml"
    threads: lambda wildcards: 2 if wildcards.table in BANDIT_SAMPLED else 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=lambda wildcards: settings(BANDIT[wildcards.table]),
        problem=settings(BANDIT["problem"]),
        seed=config["seed"],
        what=lambda wildcards: BANDIT_TABLES[wildcards.table],
    message:
        "{params.what}"
    shell:
        "python {input.script:q} --table {wildcards.table} --problem {params.problem:q} --settings {params.settings:q} "
        "--seed {params.seed} --threads {threads} --output {output:q} > {log:q} 2>&1"
