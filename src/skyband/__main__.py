"""Run the command line with ``python -m skyband``."""

from skyband.cli import main

if __name__ == "__main__":
    main()
