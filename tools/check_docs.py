"""Checks that what the documents name is there: files, links, targets of make, subcommands and flags of
the tool, types and functions.

usage: check_docs.py [ROOT]
Names are what stands in backticks, and lines of code blocks that call the tool or make. A design note
(docs/design) may name what was refused: of it only links are checked.
"""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "tests", "tools", "docs", "cli", "cmake", "bench", "examples", "schemas",
           ".ci")
SOURCES = (".cpp", ".hpp", ".py", ".sh", ".cmake", ".fbs", ".txt", ".in", ".json")
FILE = re.compile(r"[\w.-]+\.(?:cpp|hpp|py|sh|cmake|fbs|md)")
IDENTIFIER = re.compile(r"(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*(?:\(\))?")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
TICKS = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROGRAMS = ("tilemesh", "tilemesh-speech", "tilemesh-reading", "build/venv/bin/python", "tools/", "fuzz",
            "make")

# Words in backticks that are no names of ours: of ONNX, of C++, of other tools, of examples.
FOREIGN = re.compile(r"std::|onnx::|x(?:_test|_stress_test)?\.[ch]pp$|<part>|model\.onnx$")


class Tree:
    """What there is in the repository."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.files = [p for top in root.iterdir() if top.name in FOLDERS or top.is_file()
                      for p in ([top] if top.is_file() else top.rglob("*")) if p.is_file()]
        self.names = {p.name for p in self.files}

    @functools.cached_property
    def sources(self) -> str:
        return "\n".join(p.read_text(errors="replace") for p in self.files
                         if p.suffix in SOURCES or p.name in ("Makefile", "run"))

    @functools.cached_property
    def words(self) -> set[str]:
        return set(re.findall(r"\w+", self.sources))

    @functools.cached_property
    def targets(self) -> set[str]:
        return set(re.findall(r"^([a-z][\w-]*):", (self.root / "Makefile").read_text(), re.M))

    @functools.cached_property
    def subcommands(self) -> set[str]:
        return set(re.findall(r'add_subcommand\(\s*"([a-z-]+)"', self.sources))

    def has_path(self, path: str) -> bool:
        path = path.split("#")[0].rstrip("/")
        if any(c in path for c in "*<"):
            return any(self.root.glob(re.sub(r"<\w+>", "*", path)))
        return (self.root / path).exists()


def documents(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in root.rglob("*.md") if "build" not in p.relative_to(root).parts)


def split(text: str) -> tuple[str, list[str]]:
    """The prose, and the lines of code blocks that are commands of ours."""
    prose, spans, inside = [], [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            prose.append(line)
        elif line.strip().startswith(PROGRAMS):
            spans.append(line.strip())
    return "\n".join(prose), spans


def broken_links(document: pathlib.Path, prose: str) -> list[str]:
    found = []
    for target in LINK.findall(TICKS.sub("", prose)):
        path = target.split("#")[0]
        if path and "://" not in target and not (document.parent / path).exists():
            found.append(f"the link {target} leads nowhere")
    return found


def unknown_name(tree: Tree, span: str) -> str:
    """What is wrong with a span, or nothing."""
    words = span.split()
    if FOREIGN.search(span) or not words:
        return ""
    if words[0].split("/")[0] in FOLDERS and "/" in words[0]:
        return "" if tree.has_path(words[0].rstrip(",.:")) else f"no file {words[0]}"
    if words[0] == "make":
        unknown = [w for w in words[1:2] if "=" not in w and w not in tree.targets]
        return f"no target {unknown[0]} in the Makefile" if unknown else ""
    if words[0] == "tilemesh" and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
        if words[1] not in tree.subcommands:
            return f"no subcommand {words[1]}"
    if words[0].startswith(PROGRAMS) or words[0].startswith("--"):
        unknown = [flag for flag in FLAG.findall(span) if flag not in tree.sources]
        return f"no flag {unknown[0]}" if unknown else ""
    if len(words) > 1:
        return ""
    if FILE.fullmatch(span):
        return "" if span in tree.names else f"no file {span}"
    if IDENTIFIER.fullmatch(span):
        unknown = [w for w in re.findall(r"\w+", span) if w not in tree.words]
        return f"no {unknown[0]} in any source" if unknown else ""
    return ""


def complaints(root: pathlib.Path) -> list[str]:
    tree = Tree(root)
    found = []
    for document in documents(root):
        prose, commands = split(document.read_text())
        name = document.relative_to(root)
        problems = broken_links(document, prose)
        if name.parts[:2] != ("docs", "design"):
            problems += [f"`{span}`: {problem}" for span in commands + TICKS.findall(prose)
                         if (problem := unknown_name(tree, span))]
        found += [f"{name}: {problem}" for problem in problems]
    return found


def main() -> int:
    found = complaints(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
    print("\n".join(found) or "all that the documents name is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
