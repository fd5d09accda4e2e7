# What the study cost, and what it was made with.


rule stage_times:
    input:
        script=f"{SCRIPTS}/stage_times.py",
        results=STUDY,
    output:
        f"{RESULTS}/benchmarks.csv",
    log:
        f"{RESULTS}/logs/stage_times.log",
    benchmark:
        f"{RESULTS}/benchmarks/summary/stage_times.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        folder=lambda wildcards: f"{RESULTS}/benchmarks",
        files=lambda wildcards: benchmark_files(STUDY),
    message:
        "The time and memory that every stage took"
    shell:
        "python {input.script:q} {params.files} --folder {params.folder} --output {output} > {log} 2>&1"


rule manifest:
    input:
        script=f"{SCRIPTS}/manifest.py",
        code=code(
            *(f"{name}.py" for name in ["manifest", "provenance", "derived_seeds", "cells", "seeds"]),
            *(f"analysis/{name}.py" for name in ["pages", "evidence"]),
        ),
        template=f"{REPORT_TEMPLATES}/manifest.html.j2",
        results=STUDY,
    output:
        # Not removed before the job: what has not changed since the last one keeps its checksums.
        manifest=update(f"{RESULTS}/manifest.json"),
        page=report(
            f"{RESULTS}/manifest.html",
            caption="../report/manifest.rst",
            category="Provenance",
            labels={"result": "Manifest", "kind": "page"},
        ),
    log:
        f"{RESULTS}/logs/manifest.log",
    benchmark:
        f"{RESULTS}/benchmarks/summary/manifest.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=30),
    params:
        folder=lambda wildcards: RESULTS,
        settings=settings(config),
    message:
        "What the results were made with: config, commits, versions, hardware, models, data, seeds"
    shell:
        "python {input.script:q} --settings {params.settings:q} --folder {params.folder:q}"
        " --template {input.template:q} --page {output.page:q} > {log:q} 2>&1"
