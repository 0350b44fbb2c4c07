"""The report's colours (templates/report.css): contrast of text in the light, the dark and the print scheme."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from kafkawire.report.descriptions import SEVERITIES

CSS = files("kafkawire.report").joinpath("templates", "report.css").read_text("utf-8")


def schemes() -> dict[str, dict[str, str]]:
    light, dark, paper = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
                          for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL))  # fmt: skip
    return {"light": light, "dark": dark, "print": paper}


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_contrast_meets_wcag_aa(scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 to 1."""
    colours = schemes()[scheme]
    grounds = ["paper", "card", "ground", *(f"{severity}-tint" for severity in SEVERITIES)]
    for ink in ("ink", "quiet"):
        for ground in grounds:
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    assert contrast(colours["ink"], colours["waits"]) >= 4.5
    for severity in SEVERITIES:
        for ground in (f"{severity}-tint", "card", "paper"):
            assert contrast(colours[severity], colours[ground]) >= 4.5, (severity, ground)


def test_dark_and_print_schemes_define_every_colour() -> None:
    light, dark, paper = schemes().values()
    assert set(light) == set(dark) == set(paper)
