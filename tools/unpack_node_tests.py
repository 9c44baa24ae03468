"""Unpacks the tests of single operators that a wheel of onnx ships, a folder each, into a folder."""

import pathlib
import sys
import zipfile

PREFIX = "onnx/backend/test/data/node/"


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> int:
    """The number of files."""
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = pathlib.PurePosixPath(name.removeprefix(PREFIX))
            if not name.startswith(PREFIX) or name.endswith("/") or ".." in path.parts:
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
            count += 1
    return count


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    for wheel in sys.argv[2:]:
        if unpack(pathlib.Path(wheel), folder) == 0:
            print(f"unpack_node_tests: {wheel} holds no tests of operators", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
