"""Writes the models that `fuzz onnx` changes: build/venv/bin/python tests/fuzz/make_seeds.py

One for each operator of tests/differential's table, the smallest of some that are drawn, and a few of
several operators. The files are in the repository; run this after a row was added.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "differential"))

import generator  # noqa: E402
import table  # noqa: E402
from model import Case, Skip  # noqa: E402

FOLDER = HERE / "corpus" / "onnx"
DRAWS = 12
MOST_BYTES = 4000
GRAPHS = 24


def smallest(cases: list[Case]) -> bytes | None:
    found = sorted((case.proto("g").SerializeToString() for case in cases), key=len)
    return found[0] if found and len(found[0]) <= MOST_BYTES else None


def draw(make: generator.Generator, fits, count: int = DRAWS, first: int = 0) -> list[Case]:
    cases = []
    for number in range(first, first + count):
        try:
            case = make.make(number)
        except Skip:
            continue
        if fits(case):
            cases.append(case)
    return cases


def has_elements(case: Case) -> bool:
    """Models of nothing but empty tensors are found by changes."""
    return all(array.size for array in (case.inputs | case.constants).values())


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.onnx"):
        old.unlink()
    newest = max(generator.OPSETS)
    for name in table.ROWS:
        model = smallest(draw(generator.Generator(1, [name], newest), has_elements))
        if model is not None:
            (FOLDER / f"{name}.onnx").write_bytes(model)
    make = generator.Generator(2, newest=generator.NEWEST_OPSET)
    for i in range(GRAPHS):
        cases = draw(make, lambda case: len(case.nodes) >= 3 and has_elements(case), 20, 20 * i)
        model = smallest(cases)
        if model is not None:
            (FOLDER / f"graph_{i}.onnx").write_bytes(model)
    branches = draw(make, lambda case: "If" in case.operators(), 600)
    model = smallest(branches)
    if model is not None:
        (FOLDER / "If.onnx").write_bytes(model)
    print(f"{len(list(FOLDER.glob('*.onnx')))} models in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
