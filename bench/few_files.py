"""`safelight` in a process that may open 1,024 files, as many systems have it."""

import resource

from safelight.cli.main import main

resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
main()
