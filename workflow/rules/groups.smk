# The group size: what it changes, and how many seeds it takes to see it. Tables in results/<study>/.


rule group_size:
    input:
        script=f"{SCRIPTS}/group_size.py",
        code=code(
            "theory/finite_group.py",
            "theory/oscillator.py",
            "runlog/log.py",
            "analysis/group_size.py",
            "analysis/group_means.py",
            "analysis/group_scatter.py",
            "analysis/finite_group_runs.py",
            "analysis/tables_groups.py",
            "analysis/series.py",
        ),
        runs=f"{RESULTS}/runs.csv",
        variants=f"{RESULTS}/variants.csv",
        fits=f"{RESULTS}/fits.csv",
    output:
        f"{RESULTS}/group_size.csv",
    log:
        f"{RESULTS}/logs/analysis/group_size.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/group_size.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(
            {
                "alpha": config["analysis"]["alpha"],
                "equivalence_margin": config["analysis"]["equivalence_margin"],
                "max_grad_norm": config["grpo"]["max_grad_norm"],
            }
        ),
    message:
        "Comparing the smallest and the largest group size"
    shell:
        "python {input.script:q} --runs {input.runs:q} --variants {input.variants:q} --fits {input.fits:q} "
        "--settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule power:
    input:
        script=f"{SCRIPTS}/power.py",
        code=code(
            "runlog/log.py",
            *(f"analysis/{name}.py" for name in ["power", "group_scatter", "series", "tables_groups"]),
        ),
    output:
        f"{RESULTS}/power.csv",
    log:
        f"{RESULTS}/logs/analysis/power.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/power.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=settings(
            {
                "options": config["power"],
                "margin": config["analysis"]["equivalence_margin"],
                "alpha": config["analysis"]["alpha"],
                "models": len(MODELS),
                "group_sizes": len(GROUP_SIZES),
                # Cells of the variant equal_prompts with one seed.
                "small_runs": len({cell[1:3] for cell in VARIANT_CELLS if cell[0] == "equal_prompts"}),
            }
        ),
    message:
        "Computing the power of the tests on the group size against the number of seeds"
    shell:
        "python {input.script:q} --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"
