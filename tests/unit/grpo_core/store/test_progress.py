"""progress.jsonl is read by people who wait: a torn line must not end that."""

import resource
import subprocess
import sys
from pathlib import Path

from grpo_core.store.progress import ProgressLog, read_events


def _tear(path: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Emit in a process whose files may not grow beyond `limit` bytes, as on a full disk."""
    code = (
        "import resource, sys; from pathlib import Path; "
        "from grpo_core.store.progress import ProgressLog; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY})); "
        "ProgressLog(Path(sys.argv[1])).emit('note', text='x' * 40)"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )


def test_a_line_that_a_full_disk_has_torn_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    log = ProgressLog(path)
    log.emit("run_started", run="demo")
    whole = path.stat().st_size
    torn = _tear(path, whole + 60)
    assert torn.returncode != 0
    assert "OSError" in torn.stderr
    assert path.stat().st_size == whole + 60
    assert not path.read_bytes().endswith(b"\n")

    events, offset = read_events(path)
    assert [event["event"] for event in events] == ["run_started"]
    log.emit("run_finished", state="Completed")
    later, end = read_events(path, offset)
    assert [event["event"] for event in later] == ["run_finished"]
    assert end == path.stat().st_size
    assert [e["event"] for e in read_events(path)[0]] == ["run_started", "run_finished"]


def test_a_line_of_something_else_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_bytes(b'[1]\n{"at": "now"}\n\xff\n\n{"event": "note"}\n')
    assert read_events(path)[0] == [{"event": "note"}]
