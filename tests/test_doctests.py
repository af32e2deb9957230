"""The examples in the docstrings give what they say.

By pytest's own --doctest-modules, a clone in a folder of another name would be imported under that name.
"""

import doctest
import re
from importlib import import_module

import pytest
from common import own_modules

PROMPT = re.compile(r"^ *>>> ", re.MULTILINE)
EXAMPLES = sorted(name for name, path in own_modules().items() if PROMPT.search(path.read_text()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    results = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted
    assert not results.failed
