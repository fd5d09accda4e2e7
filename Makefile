# make study            the default study, from the lock to the report (STUDY=ci: the small one)
# make test             the tests, the ci study included
# make lint             formats and lints
# make bench            speed of the theory, the bandit, the fits, the command line and the callback
# make publish          the committed snapshot of the default study

SHELL := bash
STUDY ?= cpu
CORES ?= all
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OVERLAY := $(if $(filter cpu,$(STUDY)),,--configfile config/studies/$(STUDY).yaml)
RESULTS := results/$(STUDY)
# Rules call `python`: the environment's must come first.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: study test lint bench publish environment

study: environment
	snakemake --cores $(CORES) $(OVERLAY)
	snakemake --report $(RESULTS)/report.html $(OVERLAY)
	@echo "Figures:  $(RESULTS)/figures/"
	@echo "Claims:   $(RESULTS)/claims.html and claims.csv"
	@echo "Report:   $(RESULTS)/report.html"

test: environment
	python -m pytest

# On one core unless a benchmark says otherwise; other work on the machine distorts the ratios.
bench: export PYTHONPATH := workflow
bench: export OMP_NUM_THREADS := 1
bench: environment
	@for benchmark in benchmarks/*.py; do echo "== $$benchmark"; python $$benchmark || exit 1; done

# Copies the small results of the default study to results/published, which is committed.
publish: RESULTS := results/cpu
publish: environment
	mkdir -p results/published/figures results/published/bandit
	rm -f results/published/figures/*.png
	cp $(RESULTS)/figures/*.png results/published/figures/
	cp $(RESULTS)/bandit/*.csv results/published/bandit/
	rm -f results/published/bandit/trajectories.csv
	cp $(RESULTS)/{claims,fits,calibration,group_size,power,predictions,transfer,transfer_summary,diagnostics}.csv \
	  $(RESULTS)/{failures,failure_runs,failure_diagnostics,confusion,evaluations,benchmark_checks,benchmarks}.csv \
	  $(RESULTS)/claims.html $(RESULTS)/manifest.json results/published/
	cp $(RESULTS)/failures/hackable_reward/llama-tiny/G4/seed20/log.csv results/published/hackable_reward.csv
	PYTHONPATH=workflow python -m grpo_dynamics.cli diagnose results/published/hackable_reward.csv \
	  --plot results/published/figures/own_run.png

lint: environment
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/rules
	snakemake --lint

environment: $(VENV)/ready

$(VENV)/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than Python 3.11: set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making the environment in $(VENV) from requirements.lock (a few minutes, once)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@touch $@
