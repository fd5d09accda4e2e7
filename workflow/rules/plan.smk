# What the study will cost, before it runs. Target: plan. No part of `all`.

PLAN_MODULES = ["model_shape", "estimate", "timing", "plan_jobs", "plan_advice", "plan", "plan_text"]


rule plan:
    input:
        script=f"{SCRIPTS}/plan.py",
        code=code("cells.py", "config.py", *(f"training/{name}.py" for name in PLAN_MODULES)),
    output:
        f"{RESULTS}/plan.csv",
    log:
        f"{RESULTS}/logs/plan.log",
    benchmark:
        f"{RESULTS}/benchmarks/summary/plan.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(config),
        jobs=planned_jobs,
    message:
        "What the study will cost"
    shell:
        "python {input.script:q} --settings {params.settings:q} --jobs {params.jobs:q} --output {output:q}"
        " 2> {log:q} | tee -a {log:q}"
