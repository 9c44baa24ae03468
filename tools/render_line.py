"""Renders one line of text, black on white, into a picture of the format that its name says.

usage: render_line.py TEXT OUT.ppm [--height 48] [--font FILE]
"""

import argparse
import pathlib
import sys

from PIL import Image, ImageDraw, ImageFont

FONT = pathlib.Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


def render(text: str, height: int, font_file: pathlib.Path) -> Image.Image:
    font = ImageFont.truetype(str(font_file), size=round(height * 0.62))
    left, top, right, bottom = font.getbbox(text)
    margin = height // 4
    picture = Image.new("RGB", (round(right - left) + 2 * margin, height), "white")
    origin = (margin - left, (height - (bottom - top)) / 2 - top)
    ImageDraw.Draw(picture).text(origin, text, font=font, fill="black")
    return picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--height", type=int, default=48, help="in pixels (default 48)")
    parser.add_argument("--font", type=pathlib.Path, default=FONT, help="a TrueType font")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    render(options.text, options.height, options.font).save(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
