"""Before anything imports prefect: no telemetry, and a home that is nobody's."""

import os
import tempfile
from pathlib import Path

_HOME = tempfile.mkdtemp(prefix="grpo-tests-")
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
