"""Compares `tilemesh run` with onnxruntime on the models of tools/models.py, over several meshes.

Two elements are equal within a relative 1e-3 or an absolute 1e-5. With replicated inputs every mesh
has to give the same bits as the first, with one thread a device; cases may name ways to cut them
besides, where sums are made in another order. Exits with 1 when any differ.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

import models

RELATIVE, ABSOLUTE = 1e-3, 1e-5
TOOL = models.ROOT / "build" / "release" / "bin" / "tilemesh"


def expected_outputs(case: models.Case, inputs: models.Inputs) -> models.Inputs:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(case.path, options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def file_name(name: str) -> str:
    """As `tilemesh run --output-dir` names the file of an output."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy"


def our_outputs(tool: pathlib.Path, case: models.Case, inputs: models.Inputs, names: list[str],
                mesh: str, split: str) -> models.Inputs:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [str(tool), "run", str(case.path), "--mesh", mesh, "--threads-per-device", "1",
                   "--output-dir", str(folder)]
        if split:
            command += ["--auto", split]
        for key, value in inputs.items():
            file = folder / f"input_{key}.npy"
            np.save(file, value)
            command += ["--input", f"{key}={file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            text = (done.stderr or done.stdout).strip().splitlines()
            raise RuntimeError(f"exit code {done.returncode}: {text[-1] if text else ''}")
        return {key: np.load(folder / file_name(key)) for key in names}


def difference(got: np.ndarray, want: np.ndarray) -> tuple[float, str]:
    """The largest absolute error, and what is wrong if anything is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("nan"), f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
        close = np.isfinite(want) & (error <= np.maximum(ABSOLUTE, RELATIVE * np.abs(want)))
    wrong = int(np.count_nonzero(~(same | close)))
    worst = float(error.max(initial=0.0))
    return worst, f"{wrong} of {error.size} elements differ" if wrong else ""


def compare(tool: pathlib.Path, case: models.Case, mesh: str, split: str, inputs: models.Inputs,
            want: models.Inputs, first: models.Inputs) -> dict[str, object]:
    """One record; `first` holds the outputs on the first mesh, and is filled by the first call."""
    record: dict[str, object] = {"model": case.name, "mesh": mesh, "split": split,
                                 "max_error": None, "wrong": ""}
    try:
        got = our_outputs(tool, case, inputs, list(want), mesh, split)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return record | {"wrong": str(error)}
    found = {key: difference(got[key], want[key]) for key in want}
    wrong = "; ".join(f"{key}: {text}" for key, (_, text) in found.items() if text)
    for key, value in got.items():
        if not split and first.setdefault(key, value).tobytes() != value.tobytes():
            wrong = wrong or f"{key}: not the same bits as on the first mesh"
    return record | {"max_error": max(error for error, _ in found.values()), "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=pathlib.Path, default=TOOL)
    parser.add_argument("--mesh", action="append", help="e.g. 1x2; default 1x1, 1x2 and 1x8")
    parser.add_argument("--model", default="", help="only those whose name holds this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path, help="write the records to this file")
    options = parser.parse_args()

    records = []
    print(f"{'model':44} {'mesh':18} {'max error':>10}")
    for case in models.ALL:
        if options.model not in case.name:
            continue
        inputs = case.make_inputs(options.seed)
        want = expected_outputs(case, inputs)
        first: models.Inputs = {}
        meshes = [(mesh, "") for mesh in options.mesh or ("1x1", "1x2", "1x8")]
        for mesh, split in meshes + ([] if options.mesh else list(case.splits)):
            record = compare(options.tool, case, mesh, split, inputs, want, first)
            records.append(record)
            error = record["max_error"]
            text = "-" if error is None else f"{error:.2e}"
            how = f"{mesh} {split}".strip()
            print(f"{case.name:44} {how:18} {text:>10} {record['wrong'] or 'equal'}", flush=True)
    differing = sum(bool(record["wrong"]) for record in records)
    print(f"{len(records) - differing} of {len(records)} are equal to onnxruntime")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")
    return 1 if differing or not records else 0


if __name__ == "__main__":
    sys.exit(main())
