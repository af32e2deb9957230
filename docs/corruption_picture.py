"""Draw docs/corruptions.jpg: the 15 corruptions of ImageNet-C at severities 1, 3 and 5 on a photograph.

python docs/corruption_picture.py needs scikit-image, whose `data.chelsea` it shows: a photograph of Stéfan
van der Walt, CC0.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from skimage import data
from torchvision.transforms import functional as TF

from holdfast.datamodules.corruptions import corrupt
from holdfast.imagenet import CORRUPTIONS

OUT = Path(__file__).with_name("corruptions.jpg")
SEVERITIES = (1, 3, 5)
SIDE, GAP, TITLE, COLUMNS = 128, 12, 20, 3  # pixels; corruptions in a row


def main() -> None:
    """Write the picture."""
    photograph = TF.center_crop(Image.fromarray(data.chelsea()), [300])
    clean = torch.from_numpy(np.array(photograph.resize((SIDE, SIDE)))).permute(2, 0, 1)[None]
    width, height = len(SEVERITIES) * SIDE + GAP, SIDE + TITLE + GAP
    rows = -(-len(CORRUPTIONS) // COLUMNS)
    canvas = Image.new("RGB", (COLUMNS * width - GAP, rows * height - GAP), "white")
    write, font = ImageDraw.Draw(canvas), ImageFont.load_default(14)
    for number, name in enumerate(CORRUPTIONS):
        row, column = divmod(number, COLUMNS)
        left, top = column * width, row * height
        write.text((left, top), f"{name}, severity 1, 3, 5", "black", font)
        for place, severity in enumerate(SEVERITIES):
            image = corrupt(clean.float() / 255, name, severity, torch.tensor([43]))[0]
            canvas.paste(TF.to_pil_image(image), (left + place * SIDE, top + TITLE))
    canvas.save(OUT, quality=85)
    print(f"{OUT}: {canvas.width} x {canvas.height} pixels, {OUT.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
