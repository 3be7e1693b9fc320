# `make help` lists what can be done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SWIFT := .venv-swift
VLLM := .venv-vllm
SWIFT_NEEDS := torch==2.13.0 transformers==5.19.0 ms-swift==4.6.0 deepspeed==0.19.8 jsonschema
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install round run lint types test test-crash test-ray test-swift test-vllm bench clean

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

test-crash: install ## kill a round at fifty random instants; run eight sessions side by side twenty times
	COEVO_KILLS=50 COEVO_SESSIONS=20 pytest -m crash

test-swift: install $(SWIFT)/installed ## train with the real ms-swift, in an environment of its own
	pytest -m swift

$(SWIFT)/installed: Makefile
	$(PYTHON) -m venv $(SWIFT)
	$(SWIFT)/bin/python -m pip install --quiet --upgrade pip
	$(SWIFT)/bin/python -m pip install --quiet $(SWIFT_NEEDS)
	touch $@

test-vllm: install $(VLLM)/installed ## serve with the real vLLM's CPU build, in an environment of its own
	COEVO_VLLM=1 pytest -m vllm

$(VLLM)/installed: .ci/vllm_environment.py
	$(PYTHON) .ci/vllm_environment.py $(VLLM)

test-ray: install ## rollouts on a Ray cluster of this machine, nodes lost on the way
	$(BIN)/python -m pip install --quiet --editable '.[ray]'
	COEVO_RAY=1 pytest -m ray

bench: install ## the benchmarks, each a ratio against a named baseline
	python benchmarks/overhead.py
	python benchmarks/archive.py
	python benchmarks/rbac_sql.py
	python benchmarks/terminal.py

clean: ## remove what a run leaves in the work tree (not the archive)
	rm -rf round .coevo/logs .coevo/training .coevo/merging
