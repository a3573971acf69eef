"""Processes that outlive the command that started them: recognise, find and stop them.

A process id alone names nothing, because ids are reused: a `ProcessRecord` also holds the moment
of birth, and a process counts as ours only when both agree.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_PROC = Path("/proc")
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process that we started.

    Args:
        pid: Process id.
        birth: When it was born, as `birth_of` writes it.
        address: URL of the Prefect API that it serves or talks to.
        build: What it was started from (release of Prefect, digest of the code).
    """

    pid: int
    birth: str
    address: str
    build: str

    def is_alive(self) -> bool:
        """Whether this very process still runs (zombies do not)."""
        return birth_of(self.pid) == self.birth

    def write(self, path: Path) -> None:
        """Save the record in one step.

        Raises:
            OSError: It can not be written; names the file.
        """
        write_whole(path, json.dumps(asdict(self), indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Put a text in the place of a file, readable for its owner alone; all of it or nothing.

    Raises:
        OSError: It can not be written; names the file.
    """
    draft = path.with_suffix(".tmp")
    try:
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(path)
        raise


def read_record(path: Path) -> ProcessRecord | None:
    """The record at `path`; None when there is none or another release wrote it."""
    try:
        return ProcessRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def birth_of(pid: int) -> str | None:
    """Moment of birth of a running process, unique over reboots; None when it does not run."""
    if _is_linux():
        return _birth_from_proc(pid)
    listing = _ps("-p", str(pid), "-o", "stat=", "-o", "lstart=").strip()
    state, _, started = listing.partition(" ")
    return started.strip() if listing and not state.startswith("Z") else None


def descendants(pid: int) -> list[ProcessRecord]:
    """Every process below `pid`, children first; take it before signalling, for orphans move."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, parent in _parents():
        children[parent].append(child)
    found: list[ProcessRecord] = []
    queue = list(children[pid])
    while queue:
        child = queue.pop(0)
        birth = birth_of(child)
        if birth is not None:
            found.append(ProcessRecord(child, birth, "", ""))
        queue.extend(children[child])
    return found


def environments(name: str) -> Iterator[tuple[ProcessRecord, str]]:
    """This user's living processes that have the variable `name`, with its value then."""
    prefix = f"{name}="
    for pid, words in _environment_words():
        values = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
        birth = birth_of(pid) if values and pid != os.getpid() else None
        if birth is not None:
            yield ProcessRecord(pid, birth, "", ""), values[-1]


def stop_all(records: list[ProcessRecord], grace_seconds: float) -> None:
    """SIGTERM all of them, wait, then SIGKILL those left and everything below."""
    for record in records:
        kill(record, signal.SIGTERM)
    if not wait_gone(records, grace_seconds):
        left = [record for record in records if record.is_alive()]
        for member in [*left, *(child for record in left for child in descendants(record.pid))]:
            kill(member, signal.SIGKILL)
        wait_gone(records, 5.0)


def stop_tree(
    record: ProcessRecord, grace_seconds: float, *, spared: ProcessRecord | None = None
) -> bool:
    """SIGTERM the process, wait, then SIGKILL whatever of its tree is left.

    Args:
        record: The process.
        grace_seconds: How long it may take to end.
        spared: A process that lives on with all below it, although it may be of the tree.

    Returns:
        Whether it went within `grace_seconds`, without SIGKILL to the process itself.
    """
    if not record.is_alive():
        return True
    tree = descendants(record.pid)
    kill(record, signal.SIGTERM)
    went = wait_gone([record], grace_seconds)
    known = {member.pid: member for member in [*tree, *descendants(record.pid)]}
    if spared is not None:
        for member in (spared, *descendants(spared.pid)):
            known.pop(member.pid, None)
    for member in (record, *known.values()):
        kill(member, signal.SIGKILL)
    wait_gone([record, *known.values()], 5.0)
    return went


def wait_gone(records: list[ProcessRecord], seconds: float) -> bool:
    """Wait until none of `records` runs any more; False when the time is up."""
    deadline = time.monotonic() + seconds
    while any(record.is_alive() for record in records):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def kill(record: ProcessRecord, number: signal.Signals) -> None:
    """Send a signal to the very process of `record`, if it still lives."""
    if record.is_alive():
        try:
            os.kill(record.pid, number)
        except ProcessLookupError:
            return


def _is_linux() -> bool:
    return sys.platform.startswith("linux")


def _birth_from_proc(pid: int) -> str | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _parents() -> list[tuple[int, int]]:
    if not _is_linux():
        rows = (line.split() for line in _ps("-A", "-o", "pid=", "-o", "ppid=").splitlines())
        return [(int(pid), int(parent)) for pid, parent in rows]
    pairs = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            pairs.append((int(entry.name), int(text[text.rindex(")") + 2 :].split()[1])))
    return pairs


def _environment_words() -> Iterator[tuple[int, list[str]]]:
    if not _is_linux():
        for line in _ps("-x", "-E", "-ww", "-o", "pid=", "-o", "command=").splitlines():
            pid, *words = line.split()
            yield int(pid), words
        return
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                data = (entry / "environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            yield int(entry.name), data.decode(errors="replace").split("\0")


def _ps(*arguments: str) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    found = subprocess.run(
        ["ps", *arguments], capture_output=True, text=True, check=False, env=environment
    )
    return found.stdout
