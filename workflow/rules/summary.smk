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
    message:
        "The time and memory that every stage took"
    shell:
        "python {input.script:q} --folder {params.folder} --output {output} > {log} 2>&1"


rule manifest:
    input:
        script=f"{SCRIPTS}/manifest.py",
        lock=f"{workflow.basedir}/requirements.lock",
        results=STUDY,
    output:
        f"{RESULTS}/manifest.json",
    log:
        f"{RESULTS}/logs/manifest.log",
    benchmark:
        f"{RESULTS}/benchmarks/summary/manifest.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(config),
    message:
        "What the results were made with: config, commit, versions, hardware"
    shell:
        "python {input.script:q} --settings {params.settings:q} --lock {input.lock} --output {output} > {log} 2>&1"
