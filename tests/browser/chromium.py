"""Finds a Chromium for the browser tests, or installs Debian's when it may."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def main() -> int:
    if find():
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium for the browser tests …", flush=True)
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=environment)
    if find():
        return 0
    print("The browser tests need Chromium: install the package `chromium` and run this again.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
