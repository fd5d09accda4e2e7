# Analysis of the runs and evaluations: fits, group size, transfer, diagnostics. Tables in results/<study>/.

ANALYSIS = config["analysis"]
FIT_CODE = code(
    "theory",
    "seeds.py",
    *(
        f"analysis/{name}.py"
        for name in [
            "kernels",
            "tables_fits",
            "problem",
            "noise",
            "fits",
            "profile",
            "bootstrap",
            "intervals",
            "fit_table",
            "series",
        ]
    ),
    "runlog/log.py",
)

DIAGNOSTICS_CODE = FIT_CODE + code(
    *(f"analysis/{name}.py" for name in ["subject", "onset", "diagnostics", "diagnosis", "advice"])
)


rule fits:
    input:
        script=f"{SCRIPTS}/fits.py",
        code=FIT_CODE,
        runs=f"{RESULTS}/runs.csv",
        variants=f"{RESULTS}/variants.csv",
    output:
        f"{RESULTS}/fits.csv",
    log:
        f"{RESULTS}/logs/analysis/fits.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/fits.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=15),
    params:
        settings=settings({"analysis": ANALYSIS, "seed": config["seed"]}),
    message:
        "Fitting the three-phase law and its rivals to every run"
    shell:
        "python {input.script:q} --runs {input.runs:q} --variants {input.variants:q} --settings {params.settings:q} "
        "--output {output:q} 2> {log:q} | tee -a {log:q}"


rule transfer:
    input:
        script=f"{SCRIPTS}/transfer.py",
        code=code("analysis/transfer.py", "seeds.py"),
        evaluations=f"{RESULTS}/evaluations.csv",
        completions=f"{RESULTS}/evaluations/items.parquet",
    output:
        gains=f"{RESULTS}/transfer.csv",
        summary=f"{RESULTS}/transfer_summary.csv",
    log:
        f"{RESULTS}/logs/analysis/transfer.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/transfer.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=2000, runtime=15),
    params:
        settings=settings(ANALYSIS),
        seed=config["seed"],
    message:
        "Gains on all benchmarks, with bootstrap intervals"
    shell:
        "python {input.script:q} --evaluations {input.evaluations:q} --items {input.completions:q} "
        "--settings {params.settings:q} --seed {params.seed} --output {output.gains:q} --summary {output.summary:q} "
        "> {log:q} 2>&1"


rule diagnostics:
    input:
        script=f"{SCRIPTS}/diagnostics.py",
        code=DIAGNOSTICS_CODE,
        runs=f"{RESULTS}/runs.csv",
    output:
        f"{RESULTS}/diagnostics.csv",
    log:
        f"{RESULTS}/logs/analysis/diagnostics.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/diagnostics.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=15),
    params:
        settings=settings({"analysis": ANALYSIS, "diagnostics": config["diagnostics"]}),
    message:
        "Diagnosing every run"
    shell:
        "python {input.script:q} --runs {input.runs:q} --settings {params.settings:q} --output {output:q} "
        "> {log:q} 2>&1"
