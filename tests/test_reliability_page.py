"""Every test that the page on reliability names is there."""

import re

from common import ROOT


def test_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    files = (ROOT / "tests").rglob("test_*.py")
    defined = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert len(named) > 15
    assert named <= defined, sorted(named - defined)
