#!/usr/bin/env python3
"""Makes the photos of the page's example, one image of tiles: scripts/web/make_photos.py OUT.jpg

Needs scikit-image (its wheel has the photos) and Pillow. Bricks, grass and gravel are of CC0Textures (CC0), the cup by Rachel Michetti
(CC0), the cat by Stefan van der Walt (CC0). Four tiles of each class: three examples and one to ask about; then two strangers.
"""

import os
import sys

import skimage.data
from PIL import Image

SIDE, COLUMNS, ROWS = 112, 4, 4
CLASSES = ["brick", "grass", "gravel"]
STRANGERS = {"coffee": (100, 0, 500, 400), "chelsea": (75, 0, 375, 300)}


def tiles() -> list[Image.Image]:
    folder = os.path.dirname(skimage.data.__file__)
    found = []
    for name in CLASSES:
        photo = Image.open(f"{folder}/{name}.png").convert("RGB")
        half = photo.size[0] // 2
        corners = [(0, 0), (half, 0), (0, half), (half, half)]
        found += [photo.crop((x, y, x + half, y + half)) for x, y in corners]
    found += [Image.open(f"{folder}/{name}.png").convert("RGB").crop(box) for name, box in STRANGERS.items()]
    return [tile.resize((SIDE, SIDE), Image.Resampling.LANCZOS) for tile in found]


def main() -> None:
    sheet = Image.new("RGB", (COLUMNS * SIDE, ROWS * SIDE), "white")
    for place, tile in enumerate(tiles()):
        sheet.paste(tile, (place % COLUMNS * SIDE, place // COLUMNS * SIDE))
    sheet.save(sys.argv[1], quality=75, optimize=True)
    print(f"{sys.argv[1]}: {os.path.getsize(sys.argv[1])} bytes")


if __name__ == "__main__":
    main()
