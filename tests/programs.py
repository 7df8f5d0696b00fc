"""Finds programs that the tests start and that are no Python packages, or installs Debian's when it
may: `python tests/programs.py chromium pgbouncer`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# What it may be called, and the package that brings it.
PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "chromium": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "etcd": (("etcd",), "etcd-server"),
    "pgbouncer": (("pgbouncer",), "pgbouncer"),
}
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
# Servers among them are installed to be started by tests, not by the system.
_POLICY = Path("/usr/sbin/policy-rc.d")


def find(program: str) -> str | None:
    names, _ = PROGRAMS[program]
    beside = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return next((found for name in names if (found := shutil.which(name, path=beside))), None)


def install(packages: list[str]) -> None:
    print(f"Installing {', '.join(packages)} for the tests …", flush=True)
    forbid = not _POLICY.exists()
    if forbid:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        environment = {**os.environ, **_QUIET}
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environment)
    finally:
        if forbid:
            _POLICY.unlink()


def main(wanted: list[str]) -> int:
    missing = [program for program in wanted if not find(program)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install([PROGRAMS[program][1] for program in missing])
    missing = [PROGRAMS[program][1] for program in wanted if not find(program)]
    if missing:
        print(f"Install the packages {', '.join(missing)} and run this again.")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
