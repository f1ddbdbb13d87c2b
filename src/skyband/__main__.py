"""Run the command line with ``python -m skyband``."""

from skyband.cli.commands import main

if __name__ == "__main__":
    main()
