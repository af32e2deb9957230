"""The suites that come with Holdfast are well formed; how several streams are written at once."""

import pytest

from holdfast.benchmarks.suites.grid import SUITES, cells, expanded, read_suite, scales
from holdfast.benchmarks.test import parsed
from holdfast.imagenet import EXTRA

SHARED = {
    "cifar10",
    "embedded",
    "rdumb/base",
    "rdumb/ten-methods",
    "rdumb/ccc-streams",
    "rdumb/holdout-streams",
}
SHARED |= {"flips/corruptions", "field/streams"}
HOLDING = [
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur"),
    *("motion_blur", "fog", "contrast", "pixelate"),
]
NAMES = {path.relative_to(SUITES).with_suffix("").as_posix() for path in SUITES.rglob("*.yaml")}


@pytest.mark.parametrize(
    ("name", "scale"), [(n, s) for n in sorted(NAMES - SHARED) for s in (scales(n) or (None,))]
)
def test_suites_are_well_formed(name, scale):
    """All names differ, and `holdfast test` takes the arguments of the first run and of the last."""
    grid = list(cells(read_suite(name, scale)))
    assert len({cell.folder for cell in grid}) == len(grid) > 0
    for cell in (grid[0], grid[-1]):
        config = parsed({**cell.config, "out": str(cell.folder)})
        assert config["seed_everything"] == cell.names["seed"]


@pytest.mark.parametrize("name", ["demo", "field/methods", "rdumb/long"])
def test_streams_of_our_own_hold_their_difficulty(name):
    """The exact search along the corruptions of CCC that reach it: others miss it by up to 39 points."""
    found = [
        cell.config["data"]["init_args"]
        for cell in cells(read_suite(name, next(iter(scales(name)), None)))
    ]
    streams = [own.get("stream", {}).get("init_args", own) for own in found]
    assert {own["search"] for own in streams} == {"exact"}
    assert {corruption for own in streams for corruption in own["corruptions"]} == set(HOLDING)


def test_streams_written_once():
    streams = {
        "{a} {b}": {"each": {"a": ["x", "y"], "b": [1, 2]}, "init_args": {"p": ["{a}/{b}", "{b}"]}},
        "plain": {"class_path": "CCC"},
        "named": "cin-c",
        "{c}": {"each": {"c": "imagenet-c-holdout"}},
    }
    found = {variant.name: variant.config for variant in expanded(streams)}
    assert list(found) == ["x 1", "x 2", "y 1", "y 2", "plain", "named", *EXTRA]
    assert found["y 2"] == {"init_args": {"p": ["y/2", 2]}}
    assert found["plain"] == {"class_path": "CCC"}
