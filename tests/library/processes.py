"""Workers in processes of their own, beside a server in the test's."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Workers:
    """`safelight worker` on one database and data directory; what they said is kept for failures."""

    database_url: str
    data_dir: Path
    settings: dict[str, str] = field(default_factory=dict)
    started: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, **more: str) -> "subprocess.Popen[bytes]":
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAFELIGHT_")}
        ours = {
            "SAFELIGHT_DATABASE_URL": self.database_url,
            "SAFELIGHT_DATA_DIR": str(self.data_dir),
            **self.settings,
            **more,
        }
        log = self.data_dir / f"worker-{len(self.started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "safelight", "worker"],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**inherited, **ours},
            )
        self.started.append(process)
        return process

    async def all_ready(self) -> bool:
        return self.said().count("working") >= len(self.started)

    def stop(self) -> None:
        """All at once; each gives back what it holds."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            process.wait(30)

    def said(self) -> str:
        logs = sorted(self.data_dir.glob("worker-*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text()}" for log in logs)
