"""Compares random models with onnxruntime: build/venv/bin/python tests/differential/run.py

Makes models by seed and number, runs each here (model_server) and with onnxruntime, and judges what
differs (judge.py). What is wrong is made smaller and written to build/differential/SEED-NUMBER, as a
folder that `tilemesh verify --data` takes; the line that repeats it is printed. Exits with 1 when
anything is wrong. --only NAME draws one operator; --number repeats one model.
"""

import argparse
import collections
import json
import pathlib
import shutil
import sys
import time

import numpy as np
from onnx import numpy_helper

import generator
import judge
import table
from judge import Verdict, oracle, try_case
from model import Builder, Case, Skip, qualified
from reference import Unknown
from server import DEFAULT, ROOT, Server
from shrink import shrink
from values import F32
from workers import work_off

FOLDER = ROOT / "build" / "differential"

_state: dict = {}


def start_worker(options: argparse.Namespace) -> None:
    _state["options"] = options
    _state["server"] = Server(options.tool, options.timeout)
    _state["generator"] = generator.Generator(options.seed, options.only, options.newest)


def newest_opset(options: argparse.Namespace) -> int:
    """The newest opset that is imported: models of others would test nothing."""
    server = Server(options.tool, options.timeout)
    try:
        for opset in range(generator.NEWEST_OPSET, 7, -1):
            b = Builder(np.random.default_rng(0), opset, F32)
            b.case.outputs = [b.node("Identity", [b.add(np.ones(1, F32))])[0].name]
            if server.run(b.case.proto().SerializeToString(), b.case.inputs).status == "ok":
                return opset
    finally:
        server.close()
    return 7


def rules(case: Case, number: int, mesh: tuple[int, int]) -> list[str]:
    """Cuts of the inputs over a mesh, drawn by the model's number."""
    rng = np.random.default_rng([7, number])
    found = []
    for name, array in case.inputs.items():
        if mesh != (1, 1) and array.ndim and rng.random() < 0.6:
            found.append(f"{name}={rng.integers(array.ndim)}@{int(np.argmax(mesh))}")
    return found


def try_number(number: int, careful: bool = False) -> dict:
    """Makes and judges one model; carefully where this has cost a process already."""
    options, server = _state["options"], _state["server"]
    judge.apart_seconds = options.timeout if careful else None
    try:
        case = _state["generator"].make(number)
    except Skip as skip:
        return {"number": number, "kind": "not made", "text": str(skip), "operators": []}
    cuts = rules(case, number, options.mesh)

    def judged(one: Case) -> Verdict:
        return try_case(server, one, options.mesh, [c for c in cuts if c.split("=")[0] in one.inputs])

    verdict = judged(case)
    record = {"number": number, "kind": verdict.kind, "text": verdict.text,
              "operators": case.operators(), "opset": case.opset}
    if verdict.wrong and verdict.kind != "hung" and not options.no_shrink and not careful:
        case, verdict = shrink(case, verdict, judged)
        record |= {"text": verdict.text, "small": case.operators()}
    if verdict.wrong or options.keep:
        record["model"] = describe(case)
        record["folder"] = str(save(case, FOLDER / f"{options.seed}-{number}"))
    return record


def lost_number(options: argparse.Namespace):
    """The record of a number that no process comes through with."""
    def record(number: int, why: str) -> dict:
        try:
            case = generator.Generator(options.seed, options.only, options.newest).make(number)
        except Skip as skip:
            return {"number": number, "kind": "not made", "text": str(skip), "operators": []}
        return {"number": number, "kind": "hung", "text": f"the judge's process {why}",
                "operators": case.operators(), "opset": case.opset, "model": describe(case)}
    return record


def describe(case: Case) -> str:
    lines = [f"opset {case.opset}"]
    for node in case.nodes:
        types = ", ".join(f"{n}:{_type(case, n)}" if n else "-" for n in node.input)
        given = " ".join(f"{a.name}={_text(a)}" for a in node.attribute)
        lines.append(f"  {qualified(node)}({types}) {given} -> "
                     + ", ".join(f"{n}:{_type(case, n)}" for n in node.output if n))
    return "\n".join(lines)


def _type(case: Case, name: str) -> str:
    known = case.types.get(name)
    if known is None:
        return "?"
    kind = "const " if name in case.constants else ""
    data = case.constants.get(name, case.inputs.get(name))
    shown = f"={data.tolist()}" if data is not None and data.size <= 6 else ""
    return f"{kind}{known.dtype}{list(known.shape)}{shown}"


def _text(attribute) -> str:
    from onnx import helper
    value = helper.get_attribute_value(attribute)
    return str(value) if not hasattr(value, "DESCRIPTOR") else "..."


def save(case: Case, folder: pathlib.Path) -> pathlib.Path:
    """As a node test, with the oracle's outputs."""
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.proto().SerializeToString())
    arrays = {f"input_{i}": (n, a) for i, (n, a) in enumerate(case.inputs.items())}
    try:
        wanted, _ = oracle(case)
        arrays |= {f"output_{i}": (n, wanted[n]) for i, n in enumerate(case.outputs)}
    except Unknown:
        pass
    for file, (name, array) in arrays.items():
        (data / f"{file}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    return folder


def report(records: list[dict], seconds: float, options: argparse.Namespace) -> int:
    kinds = collections.Counter(record["kind"] for record in records)
    tested, refused = collections.Counter(), collections.Counter()
    for record in records:
        counts = refused if record["kind"] == "refused" else tested
        if record["kind"] not in ("not made", "no oracle"):
            counts.update(set(record["operators"]))
    missing = [name for name in table.ROWS if not tested[name] and not refused[name]]
    print("operators, models that tested them (refused):")
    names = sorted(set(tested) | set(refused))
    print("  " + ", ".join(f"{n} {tested[n]}" + (f" ({refused[n]})" if refused[n] else "") for n in names))
    never = [name for name in names if not tested[name]]
    if never:
        print(f"refused alone, so not tested: {', '.join(never)}")
    if missing and options.only is None and len(records) >= 1000:
        print(f"never drawn: {', '.join(missing)}")
    for kind in ("refused", "no oracle", "explained"):
        reasons = collections.Counter(reason_of(r["text"]) for r in records if r["kind"] == kind)
        for reason, count in reasons.most_common(40 if options.verbose else 8):
            print(f"{kind}: {count} x {reason}")
    wrong = [r for r in records if r["kind"] in ("differs", "failed", "crashed", "hung")]
    for record in wrong:
        print(f"\n{record['kind'].upper()} {options.seed}-{record['number']}: {record['text']}\n"
              f"{record['model']}\nagain: build/venv/bin/python tests/differential/run.py --seed "
              f"{options.seed} --number {record['number']}"
              + (f" --mesh {options.mesh[0]}x{options.mesh[1]}" if options.mesh != (1, 1) else ""))
    print(f"{len(records)} models in {seconds:.0f} s: "
          + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    judged = kinds["equal"] + kinds["explained"] + len(wrong)
    print(f"{judged} judged, {len(wrong)} wrong")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    return 1 if wrong or judged == 0 else 0


def reason_of(text: str) -> str:
    """Without what names a node or value."""
    parts = text.split('"')
    return " ".join(parts[0::2]).strip()[:150]


def mesh_of(text: str) -> tuple[int, int]:
    rows, columns = text.split("x")
    return int(rows), int(columns)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first model's number")
    parser.add_argument("--number", type=int, help="this model alone, and keep it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="models of one of these operators each")
    parser.add_argument("--mesh", type=mesh_of, default=(1, 1), help="e.g. 1x2; inputs are cut")
    parser.add_argument("--newest", type=int, help="opset; else the newest that is imported")
    parser.add_argument("--tool", type=pathlib.Path, default=DEFAULT, help="the model_server")
    parser.add_argument("--timeout", type=float, default=20, help="seconds for a model")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write every model")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write the records to this file")
    options = parser.parse_args()
    unknown = [name for name in options.only or [] if name not in table.ROWS]
    if unknown:
        parser.error(f"no row for {', '.join(unknown)}; there are {', '.join(sorted(table.ROWS))}")
    if options.number is not None:
        options.first, options.count, options.jobs, options.keep = options.number, 1, 1, True
    return options


def main() -> int:
    options = parse()
    options.newest = options.newest or newest_opset(options)
    print(f"models up to opset {options.newest}")
    begin = time.monotonic()
    numbers = range(options.first, options.first + options.count)
    records = []
    for record in work_off(numbers, options.jobs, 3 * options.timeout, lambda: start_worker(options),
                           try_number, lost_number(options)):
        records.append(record)
        if sys.stderr.isatty():
            print(f"\r{len(records)} of {len(numbers)} models", end="", file=sys.stderr)
    records.sort(key=lambda one: one["number"])
    return report(records, time.monotonic() - begin, options)


if __name__ == "__main__":
    sys.exit(main())
