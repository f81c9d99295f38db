"""Writes crates/data/tests/golden/augment.json: what torchvision and Pillow make of a few small images.

    pip install torch torchvision numpy "pillow<=12.0"
    python scripts/make_augment_golden.py

Up to 12.0, like the Pillow of the reference's day, `resize` always resamples rows first. Pillow 13 takes the cheaper
order, which moves some pixels by one level.

Images are made here from a fixed seed. Pixels are hexadecimal, row-major, channels interleaved.
"""

import json
import pathlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageEnhance
from torchvision import transforms

OUT = pathlib.Path(__file__).parents[1] / "crates/data/tests/golden/augment.json"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def photograph(width, height, rng):
    """Smooth colours, an edge and some noise: every kind of neighbourhood a photograph has."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 120 * np.sin(x / (5 + c) + c) * np.cos(y / (7 - c)) for c in range(3)]
    image = np.stack(waves, -1)
    image[height // 3 : height // 2, width // 4 :] = [250, 10, 128]
    image += rng.normal(0, 12, image.shape)
    return Image.fromarray(np.clip(image, 0, 255).astype(np.uint8), "RGB")


def drawing(width, height, rng):
    """Black lines on white, as 8-bit grey."""
    page = np.full((height, width), 255, np.uint8)
    for _ in range(5):
        row, column = rng.integers(height), rng.integers(width)
        page[row : row + 2, : column + 1] = 0
        page[row:, column : column + 3] = 0
    return Image.fromarray(page, "L")


def store(image):
    return {
        "width": image.width,
        "height": image.height,
        "channels": len(image.getbands()),
        "pixels": image.tobytes().hex(),
    }


def jitter(image, factors):
    """CloserLook's ImageJitter with given factors."""
    for enhancer, factor in zip((ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), factors):
        image = enhancer(image).enhance(factor).convert(image.mode)
    return image


def recorded_crop(image):
    """RandomResizedCrop.get_params, and the numbers it drew: each try's part and aspect, then top and left."""
    draws = {"tries": [], "corner": []}
    uniform, exp, randint = torch.Tensor.uniform_, torch.exp, torch.randint
    tries = []

    def record_uniform(self, low, high):
        value = uniform(self, low, high)
        tries.append(value.item())
        return value

    def record_exp(value):
        result = exp(value)
        tries[-1] = result.item()
        return result

    def record_randint(*args, **kwargs):
        value = randint(*args, **kwargs)
        draws["corner"].append(value.item())
        return value

    torch.Tensor.uniform_, torch.exp, torch.randint = record_uniform, record_exp, record_randint
    try:
        top, left, height, width = transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
    finally:
        torch.Tensor.uniform_, torch.exp, torch.randint = uniform, exp, randint
    draws["tries"] = [tries[i : i + 2] for i in range(0, len(tries), 2)]
    return draws | {"image": [image.width, image.height], "crop": [left, top, width, height]}


def main():
    rng = np.random.default_rng(20260101)
    torch.manual_seed(0)
    images = [photograph(61, 47, rng), photograph(20, 33, rng), drawing(52, 52, rng), drawing(28, 28, rng)]

    resized = []
    for index, width, height in [(0, 28, 28), (0, 61, 20), (0, 90, 47), (1, 35, 50), (1, 1, 3), (2, 32, 32), (3, 32, 32)]:
        result = images[index].resize((width, height), Image.BILINEAR)
        resized.append({"image": index, "result": store(result)})

    augmented = []
    crops = [(3, 2, 50, 40), (0, 0, 61, 47), (17, 9, 13, 11), (5, 1, 28, 28), (30, 20, 31, 27), (2, 3, 17, 29)]
    for number, (left, top, width, height) in enumerate(crops):
        index = 0 if number < 5 else 1
        factors = [float(np.float32(f)) for f in rng.uniform(0.6, 1.4, 3)]
        if number == 0:
            factors = [1.0, 1.0, 1.0]
        size, flip = (84, False) if number == 4 else (28, number % 2 == 1)
        result = transforms.functional.resized_crop(images[index], top, left, height, width, (size, size))
        result = jitter(result, factors)
        if flip:
            result = transforms.functional.hflip(result)
        case = {"image": index, "crop": [left, top, width, height], "factors": factors, "flip": flip, "size": size}
        augmented.append(case | {"result": store(result)})
    for index in (2, 3):
        factors = [float(np.float32(f)) for f in rng.uniform(0.6, 1.4, 3)]
        result = transforms.functional.resized_crop(images[index], 4, 3, 20, 22, (28, 28))
        # The reference opens every image as RGB: a grey one must give the same level in all three channels.
        rgb = np.asarray(jitter(result.convert("RGB"), factors))
        assert (rgb == rgb[..., :1]).all()
        case = {"image": index, "crop": [3, 4, 22, 20], "factors": factors, "flip": False, "size": 28}
        augmented.append(case | {"result": store(Image.fromarray(rgb[..., 0], "L"))})

    evaluated = []
    for index, size in [(0, 28), (1, 28), (1, 33), (2, 28), (3, 28)]:
        square = int(size * 1.15)
        pipeline = transforms.Compose([transforms.Resize([square, square]), transforms.CenterCrop(size)])
        evaluated.append({"image": index, "size": size, "result": store(pipeline(images[index]))})

    levels = Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, 2), "RGB")
    tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])(levels)
    normalized = [[float(v) for v in channel.flatten()] for channel in tensor]

    shapes = [(150, 112), (112, 200), (28, 28), (300, 20), (20, 300), (7, 5)]
    crops = [recorded_crop(Image.new("L", shape)) for shape in shapes for _ in range(8)]

    golden = {
        "made_with": f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}",
        "images": [store(image) for image in images],
        "resized": resized,
        "augmented": augmented,
        "evaluated": evaluated,
        "normalized": normalized,
        "crops": crops,
    }
    OUT.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


main()
