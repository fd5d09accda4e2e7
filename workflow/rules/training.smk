# GRPO: one run per model, group size G and seed, and the variants' runs. Targets: runs, variants.

GRPO = config["grpo"]
# Params of every GRPO run: how its processes start, and the model's chat template.
START = {
    "launch": settings({**config["launch"], "vllm": GRPO["vllm"]}),
    "configs": os.path.normpath(f"{ROOT}/config/accelerate"),
    "template": lambda wildcards, input: ["--chat-template", *input.template] if input.template else [],
}
# Accelerate's file, of which the config holds the name alone.
ACCELERATE = [f"{START['configs']}/{name}.yaml" for name in [config["launch"]["accelerate"]] if name]
GRPO_CODE = code(
    "training/run.py",
    "training/arguments.py",
    "training/checkpoints.py",
    "training/deadline.py",
    "training/launch.py",
    "training/measures.py",
    "training/trainer.py",
    "tasks/chat.py",
    "tasks/problems.py",
    "tasks/rewards.py",
    "tasks/scoring.py",
    "tasks/numbers.py",
    "tasks/latex.py",
    "seeds.py",
)


rule grpo:
    input:
        code=GRPO_CODE,
        accelerate=ACCELERATE,
        base=base_model_ready,
        train=f"{RESULTS}/data/train.jsonl",
        heldout=f"{RESULTS}/data/heldout.jsonl",
        template=chat_template,
    output:
        # The folders of the checkpoints are not outputs: Snakemake would delete them before a retry could resume.
        log=f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/log.csv",
        final=touch(f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/final.done"),
    log:
        f"{RESULTS}/logs/grpo/{{model}}_G{{G}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/grpo/{{model}}_G{{G}}_seed{{seed}}.tsv"
    conda:
        f"{ENVS}/training.yaml"
    threads: config["resources"]["training"]["threads"]
    resources:
        **asked("training"),
    params:
        **START,
        base=base_model,
        folder=f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}",
        settings=settings({"seed": config["seed"], "grpo": GRPO, "variant": None}),
    message:
        "GRPO: {wildcards.model}, G = {wildcards.G}, seed {wildcards.seed}"
    shell:
        # SIGTERM, which SLURM sends to every process of a job, is the run's: it saves a checkpoint before it ends.
        "trap '' TERM; export OMP_NUM_THREADS={threads};"
        " python -m grpo_dynamics.training.launch --launch {params.launch:q} --configs {params.configs:q} --"
        " --model {wildcards.model:q} --base {params.base:q} {params.template:q}"
        " --group-size {wildcards.G:q} --seed {wildcards.seed:q} --train {input.train:q} --heldout {input.heldout:q}"
        " --stop-before {resources.stop_before}"
        " --settings {params.settings:q} --folder {params.folder:q} --log {output.log:q} 2>> {log:q} | tee -a {log:q}"


use rule grpo as grpo_variant with:
    output:
        log=f"{RESULTS}/variants/{{variant}}/{{model}}/G{{G}}/seed{{seed}}/log.csv",
        final=touch(f"{RESULTS}/variants/{{variant}}/{{model}}/G{{G}}/seed{{seed}}/final.done"),
    log:
        f"{RESULTS}/logs/grpo/{{variant}}/{{model}}_G{{G}}_seed{{seed}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/grpo/{{variant}}/{{model}}_G{{G}}_seed{{seed}}.tsv"
    params:
        **START,
        base=base_model,
        folder=f"{RESULTS}/variants/{{variant}}/{{model}}/G{{G}}/seed{{seed}}",
        settings=variant_settings,
    message:
        "GRPO, {wildcards.variant}: {wildcards.model}, G = {wildcards.G}, seed {wildcards.seed}"


rule runs:
    input:
        script=f"{SCRIPTS}/runs.py",
        logs=expand(f"{RESULTS}/runs/{{model}}/G{{G}}/seed{{seed}}/log.csv", model=MODELS, G=GROUP_SIZES, seed=SEEDS),
    output:
        f"{RESULTS}/runs.csv",
    log:
        f"{RESULTS}/logs/runs.log",
    benchmark:
        f"{RESULTS}/benchmarks/grpo/runs.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "The logs of all runs in one table"
    shell:
        "python {input.script:q} {input.logs:q} --output {output:q} > {log:q} 2>&1"


rule variants:
    input:
        script=f"{SCRIPTS}/variants.py",
        logs=[f"{RESULTS}/variants/{v}/{model}/G{G}/seed{seed}/log.csv" for v, model, G, seed in VARIANT_CELLS],
    output:
        f"{RESULTS}/variants.csv",
    log:
        f"{RESULTS}/logs/variants.log",
    benchmark:
        f"{RESULTS}/benchmarks/grpo/variants.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        variants=[cell[0] for cell in VARIANT_CELLS],
    message:
        "The logs of the variants' runs in one table"
    shell:
        "python {input.script:q} {input.logs:q} --variants '{params.variants}' --output {output:q} > {log:q} 2>&1"
