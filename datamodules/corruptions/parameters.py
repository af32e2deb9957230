"""The severity tables: per table and corruption, its parameters at severities 0..5.

Severities 1..5 of "imagenet" are ImageNet-C's and its severity 0 is CCC's anchor. Severities 1..5 of
"cifar" are CIFAR-10-C's, those of "tinyimagenet" Tiny-ImageNet-C's (hendrycks/robustness,
make_tinyimagenet_c.py), for images of 32 and 64 pixels. These have no severity 0; Holdfast's
severity 0 makes the corruption the identity, while shape parameters (fog's decay) keep their value
of severity 1. The four extra
corruptions have no anchor in CCC and get one in the same way. The caller chooses the table, independent of
the images' size. A corruption may be in one table only.
"""

import math

from ... import HoldfastError

Row = tuple[float, ...]

# name: (parameters of severity 0, 1, 2, 3, 4, 5)
IMAGENET: dict[str, tuple[Row, ...]] = {
    # standard deviation
    "gaussian_noise": ((0,), (0.08,), (0.12,), (0.18,), (0.26,), (0.38,)),
    # 1 / photons at white: CCC interpolates the inverse
    "shot_noise": ((0,), (1 / 60,), (1 / 25,), (1 / 12,), (1 / 5,), (1 / 3,)),
    # share of values replaced
    "impulse_noise": ((0,), (0.03,), (0.06,), (0.09,), (0.17,), (0.27,)),
    # radius, sigma of the anti-aliasing
    "defocus_blur": ((0, 0), (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    # sigma, largest shift, iterations
    "glass_blur": ((0, 0, 0), (0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    # radius, sigma
    "motion_blur": ((0, 0), (10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    # zoom factors as arange(1, stop, step)
    "zoom_blur": ((1, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    # mean, std, zoom, threshold, motion radius, motion sigma, weight of the image
    "snow": (
        (0.1, 0.3, 3, 1, 10, 4, 1),
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    # weight of the image, weight of the frost, scale of the texture
    "frost": ((1, 0, 1), (1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    # strength, decay of the roughness
    "fog": ((0, 2), (1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    # added to V
    "brightness": ((0,), (0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    # factor about the mean
    "contrast": ((1,), (0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    # in pixels of a 244 pixel wide image (sic): displacement, its sigma, affine jitter
    "elastic_transform": (
        (0, 999, 0),
        (244 * 2, 244 * 0.7, 244 * 0.1),
        (244 * 2, 244 * 0.08, 244 * 0.2),
        (244 * 0.05, 244 * 0.01, 244 * 0.02),
        (244 * 0.07, 244 * 0.01, 244 * 0.02),
        (244 * 0.12, 244 * 0.01, 244 * 0.02),
    ),
    # scale
    "pixelate": ((1,), (0.6,), (0.5,), (0.4,), (0.3,), (0.25,)),
    # quality
    "jpeg_compression": ((85,), (25,), (18,), (15,), (10,), (7,)),
    # standard deviation relative to the value
    "speckle_noise": ((0,), (0.15,), (0.2,), (0.35,), (0.45,), (0.6,)),
    # sigma
    "gaussian_blur": ((0,), (1,), (2,), (3,), (4,), (6,)),
    # mean, std, sigma, threshold, strength, mud instead of water
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0, 0),
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    # factor and offset of S
    "saturate": ((1, 0), (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}

CIFAR: dict[str, tuple[Row, ...]] = {
    "gaussian_noise": ((0,), (0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    "shot_noise": ((0,), (1 / 500,), (1 / 250,), (1 / 100,), (1 / 75,), (1 / 50,)),
    "impulse_noise": ((0,), (0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    "defocus_blur": ((0, 0), (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0, 0, 0), (0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((0, 0), (6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1, 0.01), (1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": (
        (0.1, 0.2, 1, 1, 8, 3, 1),
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": (
        (1, 0, 0.2),
        (1, 0.2, 0.2),
        (1, 0.3, 0.2),
        (0.9, 0.4, 0.2),
        (0.85, 0.4, 0.2),
        (0.75, 0.45, 0.2),
    ),
    "fog": ((0, 3), (0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": ((0,), (0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
    "contrast": ((1,), (0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    "elastic_transform": (
        (0, 0, 0),
        (0, 0, 32 * 0.08),
        (32 * 0.05, 32 * 0.2, 32 * 0.07),
        (32 * 0.08, 32 * 0.06, 32 * 0.06),
        (32 * 0.1, 32 * 0.04, 32 * 0.05),
        (32 * 0.1, 32 * 0.03, 32 * 0.03),
    ),
    "pixelate": ((1,), (0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    "jpeg_compression": ((100,), (80,), (65,), (58,), (50,), (40,)),
    "speckle_noise": ((0,), (0.06,), (0.1,), (0.12,), (0.16,), (0.2,)),
    "gaussian_blur": ((0,), (0.4,), (0.6,), (0.7,), (0.8,), (1,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0, 0),
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "saturate": ((1, 0), (0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

TINY: dict[str, tuple[Row, ...]] = {
    "gaussian_noise": ((0,), (0.04,), (0.08,), (0.12,), (0.15,), (0.18,)),
    "shot_noise": ((0,), (1 / 250,), (1 / 100,), (1 / 50,), (1 / 30,), (1 / 15,)),
    "impulse_noise": ((0,), (0.01,), (0.02,), (0.05,), (0.08,), (0.14,)),
    "defocus_blur": ((0, 0), (0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    "glass_blur": ((0, 0, 0), (0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    "motion_blur": ((0, 0), (10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    "zoom_blur": ((1, 0.01), (1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": (
        (0.1, 0.2, 1, 1, 8, 3, 1),
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    "frost": (
        (1, 0, 0.3),
        (1, 0.3, 0.3),
        (0.9, 0.4, 0.3),
        (0.8, 0.45, 0.3),
        (0.75, 0.5, 0.3),
        (0.7, 0.55, 0.3),
    ),
    "fog": ((0, 3), (0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    "brightness": ((0,), (0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    "contrast": ((1,), (0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    "elastic_transform": (
        (0, 0, 0),
        (0, 0, 64 * 0.08),
        (64 * 0.05, 64 * 0.3, 64 * 0.06),
        (64 * 0.1, 64 * 0.08, 64 * 0.06),
        (64 * 0.1, 64 * 0.03, 64 * 0.03),
        (64 * 0.16, 64 * 0.03, 64 * 0.02),
    ),
    "pixelate": ((1,), (0.9,), (0.8,), (0.7,), (0.6,), (0.5,)),
    "jpeg_compression": ((100,), (65,), (58,), (50,), (40,), (25,)),
    "speckle_noise": ((0,), (0.15,), (0.2,), (0.25,), (0.3,), (0.35,)),
    "gaussian_blur": ((0,), (0.5,), (0.75,), (1,), (1.25,), (1.5,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0, 0),
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0.6, 1),
        (0.65, 0.1, 0.5, 0.67, 0.6, 1),
    ),
    "saturate": ((1, 0), (0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
}

TABLES = {"imagenet": IMAGENET, "cifar": CIFAR, "tinyimagenet": TINY}


def check_table(table: str) -> None:
    """Raise HoldfastError if there is no such table."""
    if table not in TABLES:
        raise HoldfastError(f"Unknown severity table {table!r}. Choose from {', '.join(TABLES)}.")


def add_rows(name: str, tables: dict[str, tuple[Row, ...]]) -> None:
    """Add a corruption's rows to the tables; raises HoldfastError unless there are six of equal length."""
    if not tables:
        raise HoldfastError(
            f"{name} has no parameters. Pass them in a table: {' or '.join(TABLES)}."
        )
    for table, rows in tables.items():
        check_table(table)
        if len(rows) != 6 or len({len(row) for row in rows}) != 1:
            raise HoldfastError(
                f"{name}: pass six rows of parameters of equal length, one for each severity from "
                "0 to 5."
            )
        TABLES[table][name] = rows


def parameters(name: str, severity: float, table: str) -> Row:
    """Interpolate entry by entry: p(s) = p_i + (s - i) (p_{i+1} - p_i), i = floor(s).

    Raises HoldfastError if a severity is outside [0, 5], or the table lacks it.
    """
    check_table(table)
    if not 0 <= severity <= 5:
        raise HoldfastError(f"Severity {severity} is not in [0, 5].")
    if name not in TABLES[table]:
        others = [other for other, rows in TABLES.items() if name in rows]
        raise HoldfastError(
            f"{name} has no parameters in table={table!r}. Pass table={others[0]!r}."
        )
    rows = TABLES[table][name]
    below = min(math.floor(severity), 4)
    weight = severity - below
    return tuple(a + weight * (b - a) for a, b in zip(rows[below], rows[below + 1], strict=True))
