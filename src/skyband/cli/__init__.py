"""The `skyband` command: all subcommands, terminal boards, the demo."""

from skyband.cli.commands import app, main

__all__ = ["app", "main"]
