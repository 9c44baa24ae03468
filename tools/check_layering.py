#!/usr/bin/env python3
"""Fails when the sources break the architecture: who may include whom, and where outside things live.

ALLOWED is the table of parts. Beside it: a private header stays in its part (but for SHARED), a
third-party header in one folder and out of the public headers, backends are named in builtin alone, every part has a
README.md, no file speaks of a machine's own folders, and files and terminals are reached by one function each.

usage: check_layering.py [ROOT]
"""

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

VALUES = {"base", "types"}
DEVICES = VALUES | {"ops", "memory", "device", "mesh"}
BACKEND = DEVICES - {"mesh"}
BELOW_RUNTIME = DEVICES | {"program", "tensor", "collectives"}
ALLOWED = {  # part: the parts it may include
    "base": set(),
    "types": {"base"},
    "memory": VALUES,
    "ops": VALUES,
    "device": VALUES | {"ops", "memory"},
    "mesh": VALUES | {"ops", "memory", "device"},
    "program": VALUES | {"ops"},
    "tensor": DEVICES - {"ops"},
    "collectives": DEVICES - {"ops"} | {"tensor"},
    "runtime": BELOW_RUNTIME,
    "compiler": VALUES | {"ops", "program"},
    "backends/cpu": BACKEND,
    "backends/null": BACKEND,
    "builtin": BELOW_RUNTIME | {"runtime", "compiler", "backends/cpu", "backends/null"},
}
# Folders of the composition: any public header, no private one.
OUTSIDE = ("cli", "examples", "bench", "python")

# Private headers that the parts above share: what a mesh and a tensor are made of.
SHARED = {"mesh/mesh_core.hpp", "tensor/tensor_state.hpp"}

# Third-party headers that live in one folder each.
THIRD_PARTY = {
    "oneDNN": re.compile(r"dnnl|oneapi/"),
    "ONNX": re.compile(r"onnx/|google/protobuf/"),
    "Highway": re.compile(r"hwy/"),
    "FlatBuffers": re.compile(r"flatbuffers/|.*_generated\.h$"),
    "hwloc": re.compile(r"hwloc"),
    "OpenCL": re.compile(r"CL/"),
    "MPI": re.compile(r"mpi\.h"),
    "CLI11": re.compile(r"CLI/"),
    "zlib": re.compile(r"zlib\.h"),
    "spdlog": re.compile(r"spdlog/"),
}


class Edge(NamedTuple):
    """A way to the world outside that one function takes for all."""

    ways: re.Pattern[str]
    places: set[str]  # that function, and what has to do with no file or name of a user's
    remedy: str


EDGES = (
    Edge(re.compile(r"\b[io]?fstream\b|\bfilebuf\b|\bf(re)?open\(|(?<![\w:])::(open|creat)\("),
         {"src/base/input_file.cpp", "src/base/output_file.cpp", "src/backends/cpu/cgroup.cpp",
          "cli/isolate.cpp", "cli/process.cpp"},
         "files are read by InputFile and written by write_file"),
    Edge(re.compile(r"\bstd::(cout|cerr|clog|puts|printf|fputs|fprintf)\b|\bfmt::print\(|\bfwrite\("),
         {"cli/terminal.cpp", "src/mesh/mesh_core.cpp"},
         "text is printed by the functions of cli/terminal.hpp, which show what names hold"),
)

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]')
STANDARD = re.compile(r"[a-z_0-9]+")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work|root|home)/\w")
IGNORED = {".git", ".venv", "build", "__pycache__"}
TEXT = {".cpp", ".hpp", ".cmake", ".in", ".txt", ".py", ".sh", ".md", ".json", ".fbs", ".yml", ""}


def part_of(directory: str) -> str:
    while directory and directory not in ALLOWED:
        directory = directory.rpartition("/")[0]
    return directory


def files(root: pathlib.Path, *suffixes: str) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """The text files below root with their lines."""
    for file in sorted(root.rglob("*")) if root.is_dir() else []:
        inside = file.relative_to(root).parts
        if any(name in IGNORED for name in inside):
            continue
        if file.suffix in suffixes and file.is_file():
            yield file, file.read_text(encoding="utf-8", errors="replace").splitlines()


def includes(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def check_parts(root: pathlib.Path) -> Iterator[str]:
    for tree in (root / "include" / "tilemesh", root / "src"):
        for file, lines in files(tree, ".hpp", ".cpp"):
            here = part_of(file.parent.relative_to(tree).as_posix())
            if not here and file.parent != tree:
                yield f"{file.relative_to(root)}: its folder is no part: add it to ALLOWED"
            for number, _, header in includes(lines):
                there = part_of(header.removeprefix("tilemesh/").rpartition("/")[0])
                place = f"{file.relative_to(root)}:{number}"
                if not here or not there or there == here:
                    continue
                if there not in ALLOWED[here]:
                    yield f"{place}: {here} must not include {there}"
                elif header in SHARED or header.startswith("tilemesh/"):
                    continue
                elif here != "builtin":
                    yield f"{place}: {header} is a private header of {there}"


def check_outside(root: pathlib.Path) -> Iterator[str]:
    for folder in OUTSIDE:
        for file, lines in files(root / folder, ".hpp", ".cpp"):
            for number, _, header in includes(lines):
                if part_of(header.rpartition("/")[0]):
                    yield f"{file.relative_to(root)}:{number}: {folder} includes public headers only"


def check_third_party(root: pathlib.Path) -> Iterator[str]:
    for file, lines in files(root / "include", ".hpp"):
        for number, bracket, header in includes(lines):
            ours = header.startswith("tilemesh/")
            if not ours and (bracket == '"' or not STANDARD.fullmatch(header)):
                yield f"{file.relative_to(root)}:{number}: {header} in a public header"
    for name, pattern in THIRD_PARTY.items():
        users: dict[str, str] = {}
        for tree in (root / "src", root / "cli"):
            for file, lines in files(tree, ".hpp", ".cpp"):
                if any(pattern.match(header) for _, _, header in includes(lines)):
                    part = part_of(file.parent.relative_to(tree).as_posix()) or tree.name
                    users.setdefault(part, str(file.relative_to(root)))
        if len(users) > 1:
            yield f"{name} is included in more than one part: {', '.join(users.values())}"


def check_switches(root: pathlib.Path) -> Iterator[str]:
    switch = "TILEMESH_" + "WITH_"
    for folder in ("include", "src", *OUTSIDE, "tests"):
        for file, lines in files(root / folder, ".hpp", ".cpp"):
            if part_of(file.parent.relative_to(root / folder).as_posix()) == "builtin":
                continue
            for number, line in enumerate(lines, 1):
                if switch in line:
                    yield f"{file.relative_to(root)}:{number}: {switch}... belongs in builtin"


def check_readmes(root: pathlib.Path) -> Iterator[str]:
    for part in ALLOWED:
        folder = root / "src" / part
        readme = folder / "README.md"
        if not (folder / "CMakeLists.txt").is_file():
            continue
        if not readme.is_file():
            yield f"src/{part}: has no README.md"
        elif len(readme.read_text().splitlines()) > 30:
            yield f"src/{part}/README.md: is longer than 30 lines"


def check_paths(root: pathlib.Path) -> Iterator[str]:
    for file, lines in files(root, *TEXT):
        for number, line in enumerate(lines, 1):
            if match := MACHINE_PATH.search(line):
                yield f"{file.relative_to(root)}:{number}: {match[0]}... is a path of one machine"


def check_edges(root: pathlib.Path) -> Iterator[str]:
    for folder in ("include", "src", "cli"):
        for file, lines in files(root / folder, ".hpp", ".cpp"):
            name = file.relative_to(root).as_posix()
            if file.stem.endswith("_test") or file.stem.startswith("testing"):
                continue
            for number, line in enumerate(lines, 1):
                for edge in EDGES:
                    if edge.ways.search(line) and name not in edge.places:
                        yield f"{name}:{number}: {edge.remedy}"


CHECKS = (check_parts, check_outside, check_third_party, check_switches, check_readmes, check_paths,
          check_edges)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if root.is_file():
        root = root.parent.parent
    found = [complaint for check in CHECKS for complaint in check(root)]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
