# Logs of one's own runs, read, fitted and diagnosed. Target: own_runs.

OWN_RUNS = config["own_runs"]


rule own_run:
    input:
        script=f"{SCRIPTS}/own_run.py",
        code=DIAGNOSTICS_CODE
        + code(
            "analysis",
            "runlog",
            "reports",
            "bandit/model.py",
            "figures/own_run.py",
            "figures/own_looks.py",
            "figures/style.py",
        ),
        template=os.path.normpath(f"{ROOT}/workflow/grpo_dynamics/reports/page.html.j2"),
        log=own_log,
    output:
        page=report(
            f"{RESULTS}/own_runs/{{own}}/report.html",
            caption="../report/own_run.rst",
            category="Own runs",
            labels={"result": "{own}", "kind": "page"},
        ),
        fit=f"{RESULTS}/own_runs/{{own}}/fit.json",
        diagnosis=f"{RESULTS}/own_runs/{{own}}/diagnosis.json",
        table=f"{RESULTS}/own_runs/{{own}}/log.csv",
    log:
        f"{RESULTS}/logs/own_runs/{{own}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/own_runs/{{own}}.tsv"
    wildcard_constraints:
        own=one_of(OWN_RUNS),
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=2000, runtime=15),
    params:
        path=lambda wildcards: OWN_RUNS[wildcards.own]["path"],
        settings=lambda wildcards: settings(
            {"run": OWN_RUNS[wildcards.own], "analysis": ANALYSIS, "diagnostics": config["diagnostics"]}
        ),
    message:
        "Reading, fitting and diagnosing {wildcards.own}"
    shell:
        "python {input.script:q} --log {params.path:q} --settings {params.settings:q} --page {output.page:q}"
        " --fit {output.fit:q} --diagnosis {output.diagnosis:q} --table {output.table:q} > {log:q} 2>&1"


rule own_runs:
    input:
        expand(f"{RESULTS}/own_runs/{{own}}/report.html", own=OWN_RUNS),
