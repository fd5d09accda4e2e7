# Trajectories of runs predicted with no fit from K and p* of one cell per model: table and figure.


rule predictions:
    input:
        script=f"{SCRIPTS}/predictions.py",
        code=code(
            "theory",
            "bandit/model.py",
            "analysis/predict.py",
            "analysis/prediction_scores.py",
            "analysis/prediction_table.py",
            "analysis/tables_predictions.py",
            "analysis/intervals.py",
            "analysis/series.py",
            "runlog/log.py",
            "seeds.py",
        ),
        runs=f"{RESULTS}/runs.csv",
        variants=f"{RESULTS}/variants.csv",
        fits=f"{RESULTS}/fits.csv",
    output:
        f"{RESULTS}/predictions.csv",
    log:
        f"{RESULTS}/logs/analysis/predictions.log",
    benchmark:
        f"{RESULTS}/benchmarks/analysis/predictions.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=15),
    params:
        settings=settings(
            {
                **config["run_predictions"],
                "seed": config["seed"],
                "mu": config["grpo"]["mu"],
                "K_ref": config["grpo"]["K_ref"],
                "alpha": config["analysis"]["alpha"],
                "block_length": config["analysis"]["block_length"],
            }
        ),
    message:
        "Predicting the runs at other eta and G from one calibration per model"
    shell:
        "python {input.script:q} --runs {input.runs:q} --variants {input.variants:q} --fits {input.fits:q} "
        "--settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule figure_predictions:
    input:
        script=f"{SCRIPTS}/figure_predictions.py",
        code=code(
            "theory",
            "bandit/model.py",
            "seeds.py",
            "runlog/log.py",
            "analysis/predict.py",
            "analysis/prediction_scores.py",
            "analysis/prediction_table.py",
            "analysis/tables_predictions.py",
            "analysis/intervals.py",
            "analysis/series.py",
            "figures/style.py",
            "figures/predictions.py",
        ),
        runs=f"{RESULTS}/runs.csv",
        variants=f"{RESULTS}/variants.csv",
        predictions=f"{RESULTS}/predictions.csv",
    output:
        pdf=f"{FIGURES}/predictions.pdf",
        png=report(
            f"{FIGURES}/predictions.png",
            caption="../report/predictions.rst",
            category="Training",
            labels={"result": "Predictions without a fit", "kind": "figure"},
        ),
    log:
        f"{RESULTS}/logs/figures/figure_predictions.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/figure_predictions.tsv"
    conda:
        f"{ENVS}/figures.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        settings=FIGURE_SETTINGS,
    message:
        "Drawing the predictions of runs without a fit"
    shell:
        "python {input.script:q} --runs {input.runs:q} --variants {input.variants:q} "
        "--predictions {input.predictions:q} --settings {params.settings:q} --pdf {output.pdf:q} "
        "--png {output.png:q} > {log:q} 2>&1"
