# The claims ledger, and the tables as pages to read in the report. Targets: claims, table_pages.

PAGE_TABLES = {
    **{
        table: f"{RESULTS}/{table}.csv"
        for table in [
            "fits",
            "calibration",
            "group_size",
            "power",
            "predictions",
            "transfer",
            "transfer_summary",
            "diagnostics",
            "failure_runs",
            "failure_diagnostics",
            "confusion",
        ]
    },
    **{
        table: f"{RESULTS}/{table}.csv"
        for table in ["evaluations", "evaluations_by_group", "benchmark_checks", "unscorable", "contamination"]
    },
    **{
        table: f"{RESULTS}/bandit/{table}.csv"
        for table in [
            "fixed_point",
            "thresholds",
            "finite_step",
            "clipping",
            "drift",
            "stationary_variance",
            "arms",
        ]
    },
}
REPORT_TEMPLATES = os.path.normpath(f"{ROOT}/workflow/report")


rule claims:
    input:
        script=f"{SCRIPTS}/claims.py",
        code=code(
            *(
                f"analysis/{name}.py"
                for name in [
                    "ledger",
                    "evidence",
                    "explanations",
                    "claims_fits",
                    "claims_groups",
                    "claims_predictions",
                    "claims_transfer",
                    "claims_runs",
                    "claims_bandit",
                    "claims_beyond",
                    "intervals",
                    "series",
                    "pages",
                    "tables",
                    "tables_failures",
                    "tables_groups",
                    "tables_predictions",
                ]
            ),
            "bandit/replicas.py",
            "runlog/log.py",
            "seeds.py",
        ),
        template=f"{REPORT_TEMPLATES}/claims.html.j2",
        analysis=expand(
            f"{RESULTS}/{{table}}.csv",
            table=[
                "fits",
                "calibration",
                "group_size",
                "predictions",
                "transfer",
                "transfer_summary",
                "diagnostics",
                "failure_runs",
                "confusion",
            ],
        ),
        bandit=expand(
            f"{RESULTS}/bandit/{{table}}.csv",
            table=[
                "fixed_point",
                "thresholds",
                "trajectories",
                "finite_step",
                "drift",
                "stationary_variance",
                "predictions",
                "overdamped_limit",
            ],
        ),
    output:
        table=f"{RESULTS}/claims.csv",
        page=report(
            f"{RESULTS}/claims.html",
            caption="../report/claims.rst",
            category="Claims",
            labels={"result": "Claims ledger", "kind": "page"},
        ),
    log:
        f"{RESULTS}/logs/claims/claims.log",
    benchmark:
        f"{RESULTS}/benchmarks/claims/claims.tsv"
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    params:
        analysis=lambda wildcards: RESULTS,
        bandit=lambda wildcards, input: str(Path(input.bandit[0]).parent),
        settings=settings(
            {
                "study": config["study"],
                "models": [config["catalogue"][model].get("label", model) for model in MODELS],
                "group_sizes": config["group_sizes"],
                "seeds": len(config["seeds"]),
                "analysis": config["analysis"],
                "claims": config["claims"],
                "distilled": [model for model in MODELS if config["catalogue"][model].get("distilled", False)],
            }
        ),
    message:
        "Judging the claims: {output.page}"
    shell:
        "python {input.script:q} --analysis {params.analysis:q} --bandit-tables {params.bandit:q} "
        "--settings {params.settings:q} --template {input.template:q} --output {output.table:q} --page {output.page:q} "
        "> {log:q} 2>&1"


rule table_page:
    input:
        script=f"{SCRIPTS}/table_page.py",
        # The pages show the descriptions of the columns, so that here the schemas are code.
        code=code(
            "theory",
            "analysis/pages.py",
            "analysis/evidence.py",
            "analysis/tables.py",
            "analysis/tables_failures.py",
            "analysis/tables_fits.py",
            "analysis/tables_groups.py",
            "analysis/tables_predictions.py",
            "bandit/tables.py",
            "tables.py",
        ),
        template=f"{REPORT_TEMPLATES}/table.html.j2",
        table=lambda wildcards: PAGE_TABLES[wildcards.table],
    output:
        report(
            f"{RESULTS}/pages/{{table}}.html",
            caption="../report/table.rst",
            category="Tables",
            labels={"result": "{table}", "kind": "table"},
        ),
    log:
        f"{RESULTS}/logs/pages/{{table}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pages/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(PAGE_TABLES),
    conda:
        f"{ENVS}/theory.yaml"
    threads: 1
    resources:
        **grow(mem_mb=1000, runtime=10),
    message:
        "The table {wildcards.table} as a page"
    shell:
        "python {input.script:q} --table {wildcards.table} --source {input.table:q} "
        "--template {input.template:q} --output {output:q} > {log:q} 2>&1"


rule table_pages:
    input:
        expand(f"{RESULTS}/pages/{{table}}.html", table=PAGE_TABLES),
