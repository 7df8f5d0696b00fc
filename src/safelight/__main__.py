from safelight.cli.main import main

main()
