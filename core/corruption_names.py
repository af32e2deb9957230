"""The corruptions of the published data sets; importing this loads nothing."""

# Their order is the published one, which CoTTA's ten orders count in. A corruption that is added to
# Holdfast belongs to none of them.
FAMILIES = {
    "imagenet-c": (
        *("gaussian_noise", "shot_noise", "impulse_noise"),
        *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
        *("snow", "frost", "fog", "brightness"),
        *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    ),
    "imagenet-c-holdout": ("speckle_noise", "gaussian_blur", "spatter", "saturate"),
    "imagenet-c-bar": (
        *("blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout"),
        *("cocentric_sine_waves", "inverse_sparkles", "perlin_noise", "plasma_noise"),
        *("single_frequency_greyscale", "sparkles"),
    ),
    "imagenet-3dcc": (
        *("near_focus", "far_focus", "fog_3d", "flash", "color_quant", "low_light"),
        *("xy_motion_blur", "z_motion_blur", "iso_noise", "bit_error", "h265_abr", "h265_crf"),
    ),
}
CORRUPTIONS, EXTRA = FAMILIES["imagenet-c"], FAMILIES["imagenet-c-holdout"]
