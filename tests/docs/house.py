"""The map of the package in CONTRIBUTING.md, made from the import contracts and the packages' docstrings.

``python -m tests.docs.house`` writes it anew.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- the map: made by python -m tests.docs.house -->\n", "<!-- end of the map -->\n"


def contracts() -> dict[str, list[list[str]]]:
    """Return the layers of each package that has a contract for them, top to bottom."""
    settings: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        contract["containers"][0]: [layer.split(" | ") for layer in contract["layers"]]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }


def summary(module: str) -> str:
    """Return the first paragraph of a module's docstring."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0].replace("\n", " ")


def house() -> str:
    """Return the map: a row for each module at the top, then the layers inside of packages."""
    layers = contracts()
    rows = [
        f"| `{room}{'/' if (ROOT / 'src/skyband' / room).is_dir() else ''}` | {summary(f'skyband.{room}')} |"
        for layer in layers["skyband"]
        for room in layer
    ]
    order = [f"{package}: `{arrows(inside)}`" for package, inside in layers.items()]
    return "\n".join(["| room | what it holds |", "|---|---|", *rows, "", *(f"- {line}" for line in order)]) + "\n"


def arrows(layers: list[list[str]]) -> str:
    """Return layers in one line, from those that import to those that are imported."""
    return " > ".join(" | ".join(layer) for layer in layers)


def main() -> None:
    """Write the map into the page."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(head + BEGIN + "\n" + house() + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
