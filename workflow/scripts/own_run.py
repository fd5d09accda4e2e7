"""Makes results/<study>/own_runs/<name>: a page, the fit and the diagnosis as JSON, and the table read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.diagnosis import diagnose_run
from grpo_dynamics.analysis.own_fit import fit_own
from grpo_dynamics.files import replacing
from grpo_dynamics.reports.data import to_json
from grpo_dynamics.reports.findings import Findings
from grpo_dynamics.reports.page import write_page
from grpo_dynamics.runlog.log import OWN_LOG
from grpo_dynamics.runlog.read import choose, read


def main(
    log: Annotated[Path, typer.Option(help="log file or folder")],
    settings: Annotated[str, typer.Option(help="JSON: the entry of own_runs, the config's analysis and diagnostics")],
    page: Annotated[Path, typer.Option(help="page to write (.html)")],
    fit: Annotated[Path, typer.Option(help="fit to write (.json)")],
    diagnosis: Annotated[Path, typer.Option(help="diagnosis to write (.json)")],
    table: Annotated[Path, typer.Option(help="the rows read, to write (.csv)")],
) -> None:
    values = json.loads(settings)
    entry = values["run"]
    reward_range = tuple(entry["reward_range"]) if "reward_range" in entry else None
    run, chosen = choose(
        read(log, entry.get("rename", {}), entry.get("group_size"), reward_range),
        str(entry["run"]) if "run" in entry else None,
    )
    diagnoses = diagnose_run(
        run.table, run.G, run.reward_range, values["analysis"], values["diagnostics"], run.not_binary
    )
    found = Findings(run, chosen, fit_own(run, values["analysis"]), tuple(diagnoses))
    tables.write(run.table, table, OWN_LOG)
    for path, part in ((fit, replace(found, diagnoses=None)), (diagnosis, replace(found, fit=None))):
        with replacing(path) as temporary:
            temporary.write_text(to_json(part))
    write_page(found, page)


if __name__ == "__main__":
    command.run(main)
