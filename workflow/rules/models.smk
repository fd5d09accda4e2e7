# Base models: pretrained by the study, fetched from the hub, or local.


rule pretrain:
    input:
        code=code("tasks/ladder.py", "training/pretraining.py", "training/tokenizer.py", "seeds.py"),
    output:
        touch(f"{RESULTS}/models/{{model}}/base.done"),
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pretrain/{{model}}.tsv"
    wildcard_constraints:
        model=one_of(PRETRAINED),
    conda:
        f"{ENVS}/training.yaml"
    threads: 1
    resources:
        **grow(mem_mb=3000, runtime=60),
    params:
        folder=f"{RESULTS}/models/{{model}}/base",
        settings=lambda wildcards: settings(
            {
                "seed": config["seed"],
                "architecture": config["catalogue"][wildcards.model]["architecture"],
                "mixture": config["catalogue"][wildcards.model]["pretraining"],
                "sizes": config["pretraining"],
            }
        ),
    message:
        "Pretraining the base model {wildcards.model}"
    shell:
        "rm -f {log:q}; export OMP_NUM_THREADS={threads};"
        " python -m grpo_dynamics.training.pretraining --name {wildcards.model:q} --settings {params.settings:q}"
        " --output {params.folder:q} 2>> {log:q} | tee -a {log:q}"


rule download_model:
    input:
        script=f"{SCRIPTS}/download_model.py",
    output:
        # The model's folder is not an output: Snakemake would delete it before a download that was cut off could go on.
        f"{RESULTS}/models/{{model}}/download.json",
    log:
        f"{RESULTS}/logs/download_model/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/download/{{model}}.tsv"
    wildcard_constraints:
        model=one_of(FROM_HUB),
    conda:
        f"{ENVS}/training.yaml"
    threads: 1
    resources:
        **grow(mem_mb=4000, runtime=240),
    params:
        folder=f"{RESULTS}/models/{{model}}/base",
        hub=lambda wildcards: config["catalogue"][wildcards.model]["hub"],
        revision=lambda wildcards: config["catalogue"][wildcards.model]["revision"],
    message:
        "Fetching {params.hub} (revision {params.revision}) from the hub; progress: {log}"
    shell:
        "unset HF_HUB_OFFLINE HF_DATASETS_OFFLINE TRANSFORMERS_OFFLINE;"
        " python {input.script:q} --model {params.hub:q} --revision {params.revision:q}"
        " --folder {params.folder:q} --record {output:q} > {log:q} 2>&1"
