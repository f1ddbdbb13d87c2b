"""The front page of the documentation is the README: `python -m tests.docs.front` writes the one from the other."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

README, INDEX = ROOT / "README.md", ROOT / "docs" / "index.md"
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?!docs/)(?!https?:)[^)]*\)")


def front_page() -> str:
    """Return the README with links as they lead from docs/; what lies outside of it is named without a link."""
    lines = README.read_text().splitlines()
    if _OUTSIDE.search(lines[-1]):  # the last line is about the repository
        lines = lines[:-2]
    note = "<!-- Written from README.md by `python -m tests.docs.front`. -->"
    return "\n".join([lines[0], "", note, *lines[1:], ""]).replace("](docs/", "](")


if __name__ == "__main__":
    INDEX.write_text(front_page())
