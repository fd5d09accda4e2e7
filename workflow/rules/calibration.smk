# Calibration of the fits' intervals on simulated runs. Target: calibration.


rule calibration_table:
    input:
        script=f"{SCRIPTS}/calibration_table.py",
        code=FIT_CODE + code("analysis/calibration.py"),
    output:
        f"{RESULTS}/calibration.csv",
    log:
        f"{RESULTS}/logs/analysis/calibration.log",
    benchmark:
        f"{RESULTS}/benchmarks/calibration/calibration_table.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=30),
    params:
        settings=settings({"analysis": ANALYSIS, "calibration": config["calibration"], "seed": config["seed"]}),
    message:
        "Checking the fits' intervals on simulated runs"
    shell:
        "python {input.script:q} --settings {params.settings:q} --output {output:q} 2> {log:q} | tee -a {log:q}"


rule figure_calibration:
    input:
        script=f"{SCRIPTS}/figure_calibration.py",
        code=code("figures/style.py", "figures/calibration.py"),
        table=f"{RESULTS}/calibration.csv",
    output:
        pdf=f"{FIGURES}/calibration.pdf",
        png=report(
            f"{FIGURES}/calibration.png",
            caption="../report/calibration.rst",
            category="Training",
            labels={"result": "Calibration of the intervals", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_calibration.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_calibration.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        accepted=config["calibration"]["accepted"],
    message:
        "Drawing the coverage of the fits' intervals"
    shell:
        "python {input.script:q} --table {input.table:q} --low {params.accepted[0]} --high {params.accepted[1]} "
        "--pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule calibration:
    input:
        rules.calibration_table.output,
        rules.figure_calibration.output,
