"""The command line."""

from skyband.cli.commands import app, main

__all__ = ["app", "main"]
