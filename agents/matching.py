"""Whether a title is the target's: CiteME's rule, and a stricter one for similar titles."""

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache

THRESHOLD = 0.8  # CiteME accepts strictly above it
_NEAR = 0.9
_ARXIV = re.compile(r"arxiv(?:\.org/(?:abs|pdf)/|[.:])\s*(\d{4}\.\d{4,5})", re.IGNORECASE)
_DOI = re.compile(r"\b(10\.\d{4,9}/[^\s?#]+)", re.IGNORECASE)


def ratio(a: str, b: str) -> float:
    """Ratcliff-Obershelp similarity in [0, 1] of lower-cased titles; not symmetric."""
    return SequenceMatcher(None, a.lower(), b.lower()).ratio()


def official_match(title: str, targets: Iterable[str], threshold: float = THRESHOLD) -> bool:
    """Whether CiteME's code would accept `title` for any of `targets`."""
    return any(ratio(title, target) > threshold for target in targets)


def official_hit(title: str, targets: Iterable[str]) -> bool:
    """Whether CiteME's code would accept a search hit; it swaps the arguments of the ratio."""
    return any(ratio(target, title) > THRESHOLD for target in targets)


def strict_match(
    title: str, targets: Iterable[str], ids: Iterable[str] = (), target_ids: Iterable[str] = ()
) -> bool:
    """Whether identifiers agree, or titles do apart from case, punctuation and spelling variants.

    Unlike the 0.8 rule it distinguishes Fast and Faster R-CNN, GPT-4 and GPT-4V, few- and zero-shot.
    """
    if set(ids) & set(target_ids):
        return True
    return any(_same_title(normalise(title), normalise(target)) for target in targets)


def identifiers(text: str) -> frozenset[str]:
    """The arXiv ids and DOIs in a URL, as `arxiv:2407.12861` and `doi:10....`."""
    arxiv = {f"arxiv:{match}" for match in _ARXIV.findall(text)}
    doi = {f"doi:{match.lower().rstrip('.')}" for match in _DOI.findall(text)}
    # arXiv's own DOIs name the same paper as its arXiv id.
    arxiv |= {f"arxiv:{d.split('arxiv.')[1]}" for d in doi if "/arxiv." in d}
    return frozenset(arxiv | doi)


@lru_cache(maxsize=20_000)
def normalise(title: str) -> str:
    """Lower-case words without punctuation, accents and LaTeX markup; Greek letters by name."""
    text = unicodedata.normalize("NFKC", title)
    text = "".join(_greek(c) for c in text)
    text = "".join(
        c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
    ).casefold()
    text = re.sub(r"\\(?:mathcal|mathbf|mathrm|text\w*|emph)\b|[$\\{}]", "", text)
    return " ".join(re.findall(r"\w+", text.replace("_", " ")))


def _greek(char: str) -> str:
    name = unicodedata.name(char, "")
    return name.rsplit(" ", 1)[1].lower() if re.fullmatch(r"GREEK \w+ LETTER \w+", name) else char


def _same_title(a: str, b: str) -> bool:
    if not a or not b:
        return False
    if a.replace(" ", "") == b.replace(" ", ""):
        return True
    words_a, words_b = a.split(), b.split()
    if len(words_a) != len(words_b) or min(ratio(a, b), ratio(b, a)) <= _NEAR:
        return False
    return all(x == y or _spelling(x, y) for x, y in zip(words_a, words_b, strict=True))


def _spelling(x: str, y: str) -> bool:
    """Whether two words of at least six letters are spelling variants."""
    letters = min(len(x), len(y)) >= 6 and (x + y).isalpha()
    return letters and x[0] == y[0] and min(ratio(x, y), ratio(y, x)) > 0.85
