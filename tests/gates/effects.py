"""What counts as a step of a write path, and which steps need no failpoint, with the reason."""

# Where statements live besides the repos, each function declared like theirs.
DECLARED_FILES = (
    "infra/kv.py",
    "infra/activity.py",
    "infra/feed.py",
    "infra/identity.py",
    "infra/stretches.py",
)
EXEMPT = {
    "cli/": "a person sits before it, and what it calls has its points",
    "infra/connecting.py": "sets a session up, and nothing else",
    "infra/db.py": "passes statements on",
    "infra/pooler.py": "looks, and leaves nothing behind",
    "testing/": "not part of a running server",
}
EFFECTS = {
    f"os.{name}"
    for name in (
        "copy_file_range", "fsync", "fdatasync", "ftruncate", "link", "pwrite", "remove", "rename",
        "replace", "rmdir", "sendfile", "symlink", "truncate", "unlink", "write", "writev",
    )
} | {
    f"shutil.{name}" for name in ("copy", "copyfile", "copyfileobj", "copytree", "move", "rmtree")
} | {
    f"obstore.{name}{kind}"
    for name in ("put", "delete", "copy", "rename")
    for kind in ("", "_async")
}  # fmt: skip
PATH_METHODS = {
    "hardlink_to", "rename", "replace", "rmdir", "symlink_to", "unlink", "write_bytes", "write_text",
}  # fmt: skip
# Of whoever is called like this, its name ending so: these methods change the world.
OF_OTHERS = {
    "store": {"put", "put_with", "delete", "delete_with", "delete_if", "share"},
    "provider": {"submit", "poll", "cancel"},
    "courier": {"receive", "answer"},
    "client": {"post", "put", "patch", "delete"},
}
# One effect under a name of its own: calling it is the step.
WRAPPERS = {
    "commit_with", "sync_directory", "sync_together", "sync_tree", "write_all", "write_chunks",
    "_write_all", "write_private", "self._upload", "self._delete_bytes",
    "self._abort",
}  # fmt: skip
LAST_WORDS = {name.rpartition(".")[2] for name in EFFECTS | WRAPPERS}
STATEMENTS = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table"}
# Points before something that is no effect by itself, and what a death there shows.
MARKS = {
    "postgres.copy_binaries": "half of the programs are beside the cluster",
    "postgres.initdb": "half a cluster is there",
    "postgres.launch": "a server is about to run that nobody knows of",
    "postgres.set_password": "nobody knows the new password yet",
    "migrate.embeddings": "everything but the table of embeddings is there",
    "queue.run": "a worker dies with a job in its hands",
    "sandbox.run": "a child is about to be given untrusted bytes",
    "sandbox.start": "a child is about to run that nobody knows of",
    "ingest.open": "a file is about to be made; nothing is there yet",
    "ingest.recorded": "the upload is recorded and nobody was told",
    "submissions.tier1": "a run dies between two states",
    "submissions.tier2": "a run dies between two states",
}
# Effects without a point, by function, and why a death there is no case of its own.
UNGUARDED = {
    "infra/data_directory.py:DirectoryLock.acquire os.ftruncate": "the lock is the kernel's",
    "infra/data_directory.py:DirectoryLock.acquire os.pwrite": "words for people",
    "infra/data_directory.py:_recorded_socket_directory write_private": "an empty directory is left",
    "infra/priority.py:step_back Path('/proc/self/autogroup').write_text": (
        "a process's own place in line, gone with it"
    ),
    "infra/data_directory.py:open_to safelight.infra.files.sync_directory": (
        "whoever starts next makes the directory again"
    ),
    "infra/data_directory.py:remove_socket_directory "
    "Path(directory.socket_record.read_text()).rmdir": "an empty directory is left",
    "infra/data_directory.py:remove_socket_directory directory.socket_record.unlink": (
        "a record is left, and used again"
    ),
    "infra/postgres/binaries.py:_copy_part shutil.copyfile": "behind postgres.copy_binaries",
    "infra/postgres/binaries.py:_copy safelight.infra.files.sync_directory": (
        "behind postgres.publish_binaries: whoever starts next finds a copy or none"
    ),
    "infra/postgres/binaries.py:_discard_copies shutil.rmtree": "the rest goes next time",
    "infra/postgres/cluster.py:_make_cluster safelight.infra.files.sync_directory": (
        "behind postgres.publish_cluster: whoever starts next finds a cluster or none"
    ),
    "infra/postgres/cluster.py:ensure_cluster safelight.infra.data_directory.write_private": (
        "a file that is the same at every start"
    ),
    "infra/postgres/cluster.py:ensure_cluster shutil.rmtree": "the rest goes next time",
    "infra/postgres/cluster.py:until_alone (cluster / 'postmaster.pid').unlink": (
        "a file of a server that is gone"
    ),
    "infra/postgres/process.py:Postmaster.rise "
    "(self._socket_directory / f'{SOCKET_NAME}.lock').unlink": "a file of a server that is gone",
    "infra/postgres/process.py:Postmaster.cap_log os.truncate": "a log is longer than it should be",
    "infra/postgres/process.py:Postmaster.cap_log shutil.copyfile": "a log is there twice",
    "infra/postgres/server.py:EmbeddedPostgres.start self._directory.url.unlink": (
        "no address is published while nothing runs"
    ),
    "infra/postgres/server.py:EmbeddedPostgres.start self._directory.server.unlink": (
        "whoever starts next removes it, and who would read it starts first"
    ),
    "infra/postgres/server.py:EmbeddedPostgres.stop self._directory.url.unlink": (
        "an address without a server is known for what it is"
    ),
    "infra/postgres/server.py:EmbeddedPostgres.stop self._directory.server.unlink": (
        "whoever starts next removes it, and who would read it starts first"
    ),
    "library/deletion.py:UploadDeletion.request self._store.delete_with": (
        "the store's steps have theirs, and so has library.delete, which it ends with"
    ),
}
