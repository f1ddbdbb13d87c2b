"""The picture of the staircase keeps and drops what the rule says."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.docs.pages import ROOT

IMAGES = sorted((ROOT / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
NEED = {1: 0, 2: 1, 3: 1, 4: 1, 5: 3, 6: 3}  # K(p), as the picture's lowest row gives it
OPEN, OPEN_K = 7, 3


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_picture_is_described_and_stands_alone(image: object) -> None:
    text = image.read_text()  # type: ignore[attr-defined]
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title") is not None
    assert not re.search(r"(href|src)=|url\(|<script|<style[^>]*src", text)


def test_staircase_picture_follows_the_rule() -> None:
    root = ElementTree.parse(ROOT / "docs" / "images" / "staircase.svg").getroot()
    dots = [
        (int(dot.attrib["data-pane"]), -float(dot.attrib["cy"]), dot.attrib["class"])
        for dot in root.iter(f"{SVG}circle")
        if "data-pane" in dot.attrib
    ]
    assert len(dots) > 30
    for pane, merit, drawn in dots:
        if pane == OPEN:
            kept = sum(p == OPEN and other > merit for p, other, _ in dots) < OPEN_K
        else:
            kept = sum(pane <= p < OPEN and other > merit for p, other, _ in dots) < NEED[pane]
        assert drawn == ("kept" if kept else "dropped"), (pane, merit)
