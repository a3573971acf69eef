"""Before anything imports prefect: no telemetry, a home that is nobody's, Ctrl-C as typed."""

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path

# Whoever starts the tests with `&` has it ignored, and so would every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
_HOME = tempfile.mkdtemp(prefix="grpo-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
for name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[name]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors, and tests run beside others
os.environ |= {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "PREFECT_HOME": _HOME,
    "PREFECT_PROFILES_PATH": str(Path(_HOME) / "profiles.toml"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
