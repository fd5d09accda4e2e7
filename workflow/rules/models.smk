# Problems and base models: generated and pretrained by the study, fetched from the hub, or local.


# The ladder's problems do not depend on the benchmarks' code, which would otherwise retrain every model.
TRAINING_DATA_CODE = code("tasks/training.py", "tasks/problems.py", "seeds.py") + (
    code("tasks/ladder.py") if config["task"] == "ladder" else code("tasks/benchmarks.py", "tasks/scoring.py")
)


rule training_data:
    input:
        script=f"{SCRIPTS}/training_data.py",
        code=TRAINING_DATA_CODE,
        files=[path for path in (config["training_data"]["train"], config["training_data"]["heldout"]) if path],
    output:
        train=f"{RESULTS}/data/train.jsonl",
        heldout=f"{RESULTS}/data/heldout.jsonl",
    log:
        f"{RESULTS}/logs/training_data.log",
    benchmark:
        f"{RESULTS}/benchmarks/data/training_data.tsv"
    conda:
        f"{ENVS}/training.yaml"
    threads: 1
    resources:
        **grow(mem_mb=2000, runtime=20),
    params:
        settings=settings(
            {
                "seed": config["seed"],
                "task": config["task"],
                "training_data": config["training_data"],
                "heldout_problems": config["grpo"]["heldout_problems"],
            }
        ),
    message:
        "Problems to train on and to hold out ({config[task]})"
    shell:
        "python {input.script:q} --settings {params.settings:q}"
        " --train {output.train:q} --heldout {output.heldout:q} > {log:q} 2>&1"


rule ladder_data:
    input:
        script=f"{SCRIPTS}/ladder_data.py",
        code=code("tasks/ladder.py", "tasks/problems.py", "seeds.py"),
        train=f"{RESULTS}/data/train.jsonl",
        heldout=f"{RESULTS}/data/heldout.jsonl",
    output:
        f"{RESULTS}/data/ladder/{{benchmark}}.jsonl",
    log:
        f"{RESULTS}/logs/ladder_data/{{benchmark}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/data/{{benchmark}}.tsv"
    wildcard_constraints:
        benchmark="ladder_[a-z_]+",
    conda:
        f"{ENVS}/training.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings({"seed": config["seed"], "items": config["evaluation"]["items"]}),
    message:
        "Problems of the benchmark {wildcards.benchmark}"
    shell:
        "python {input.script:q} --settings {params.settings:q} --benchmark {wildcards.benchmark:q}"
        " --exclude {input.train:q} --exclude {input.heldout:q} --output {output:q} > {log:q} 2>&1"


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
        touch(f"{RESULTS}/models/{{model}}/download.done"),
    log:
        f"{RESULTS}/logs/download_model/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/download_model/{{model}}.tsv"
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
        "Fetching {params.hub} (revision {params.revision}) from the hub"
    shell:
        "python {input.script:q} --hub {params.hub:q} --revision {params.revision:q}"
        " --folder {params.folder:q} > {log:q} 2>&1"
