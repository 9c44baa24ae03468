"""Measures Tilemesh against onnxruntime, with equal numbers of threads, in turns within one run.

Writes an array of records {group, name, value, unit, reference, ratio, wanted, ok}: `reference` is
onnxruntime's value in this run, `ratio` how we stand to it (above 1 is better than it), `wanted`
the ratio or value asked for, or null. Our side is timed by `tilemesh-bench`, which prints one JSON
object with `median_us`:

    tilemesh-bench add --repeat N             a blocking run of Add on [1,16]
    tilemesh-bench run FILE.tmb --repeat N    a blocking run, its inputs resident
    tilemesh-bench load FILE.tmb --repeat N   load and prepare
    tilemesh-bench mesh CASE                  a case of the mesh layer: {value, reference}
    tilemesh-bench collectives CASE           a case of the collectives: {value, reference}

The group `partition` sets programs cut over two devices of one thread against onnxruntime with two
threads, and against one device. The group `mesh` has no rival: its reference is what this machine does in the same run (memcpy by as
many threads, one device, single enqueues), and its ratio is value / reference.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime

import models

BINARIES = models.ROOT / "build" / "release" / "bin"
ROUNDS = 7
ROUND_SECONDS = 0.3

Measure = Callable[[int], float]  # repeats -> median in microseconds


@dataclasses.dataclass
class Record:
    group: str
    name: str
    value: float
    unit: str
    reference: float | None
    ratio: float | None
    wanted: float | None = None
    ok: bool | None = None


def rival_session(model: str | bytes, threads: int = 1) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def rival_run(session: onnxruntime.InferenceSession, inputs: models.Inputs) -> Measure:
    """Times runs with everything bound ahead, so that little of Python's own time is in it."""
    binding = session.io_binding()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in inputs.values()]
    for name, value in zip(inputs, values):
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def measure(repeats: int) -> float:
        times = []
        for _ in range(repeats):
            start = time.perf_counter_ns()
            session.run_with_iobinding(binding)
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times) / 1e3

    return measure


def rival_load(path: pathlib.Path) -> Measure:
    def measure(repeats: int) -> float:
        times = []
        for _ in range(repeats):
            start = time.perf_counter_ns()
            rival_session(str(path))
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times) / 1e3

    return measure


def ours(*arguments: str) -> Measure:
    def measure(repeats: int) -> float:
        command = [str(BINARIES / "tilemesh-bench"), *arguments, "--repeat", str(repeats)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(json.loads(output)["median_us"])

    return measure


def in_turns(our: Measure, rival: Measure, rounds: int = ROUNDS) -> tuple[float, float]:
    """The medians over the rounds; one round takes about ROUND_SECONDS on each side."""
    repeats = max(1, min(100_000, int(ROUND_SECONDS * 1e6 / max(rival(3), 0.1))))
    pairs = [(our(repeats), rival(repeats)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def compile_model(case: models.Case, output: pathlib.Path, *options: str) -> None:
    command = [str(BINARIES / "tilemesh"), "compile", str(case.path), "-o", str(output),
               "--threads-per-device", "1", *options]
    for name, shape in case.inputs.items():
        if isinstance(shape, tuple):
            command += ["--shape", f"{name}={','.join(map(str, shape))}"]
        else:
            command += ["--value", f"{name}={shape}"]
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure_models(wanted_mean: float, wanted_load: float) -> list[Record]:
    runs, loads = [], []
    for name, case in models.TIMED.items():
        binary = models.ROOT / "build" / "bench" / f"{name}.tmb"
        compile_model(case, binary)
        rival = rival_run(rival_session(str(case.path)), case.make_inputs())
        our_us, rival_us = in_turns(ours("run", str(binary)), rival)
        runs.append(Record("models", name, our_us, "us", rival_us, rival_us / our_us))
        # A process of its own for each of our loads: none finds the code of an earlier one.
        pairs = [(ours("load", str(binary))(1), rival_load(case.path)(1)) for _ in range(ROUNDS)]
        our_us, rival_us = (statistics.median(side) for side in zip(*pairs))
        ratio = rival_us / our_us
        loads.append(Record("load", name, our_us, "us", rival_us, ratio, wanted_load,
                            ratio >= wanted_load))
    mean = math.exp(statistics.fmean(math.log(record.ratio or 0.0) for record in runs))
    total = Record("models", "geometric_mean", mean, "ratio", 1.0, mean, wanted_mean,
                   mean >= wanted_mean)
    return [*runs, total, *loads, *measure_encoders(wanted_ratio=1.15)]


def measure_encoders(wanted_ratio: float) -> list[Record]:
    """One device of one thread; what several devices add is another group's."""
    records = []
    for name, case in models.ENCODERS.items():
        binary = models.ROOT / "build" / "bench" / f"{name}.tmb"
        compile_model(case, binary)
        rival = rival_run(rival_session(str(case.path)), case.make_inputs())
        our_us, rival_us = in_turns(ours("run", str(binary)), rival)
        ratio = rival_us / our_us
        records.append(Record("models", name, our_us, "us", rival_us, ratio, wanted_ratio,
                              ratio >= wanted_ratio))
    return records


def measure_add(wanted_us: float) -> Record:
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 16])
            for name in "aby"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["a", "b"], ["y"])], "add",
                                   info[:2], info[2:])
    model = onnx.helper.make_model(graph, ir_version=8,
                                   opset_imports=[onnx.helper.make_opsetid("", 14)])
    inputs = {name: np.ones((1, 16), np.float32) for name in "ab"}
    rival = rival_run(rival_session(model.SerializeToString()), inputs)
    our_us, rival_us = in_turns(ours("add"), rival)
    return Record("small", "add_1x16", our_us, "us", rival_us, rival_us / our_us, wanted_us,
                  our_us <= wanted_us)


@dataclasses.dataclass
class MeshCase:
    unit: str
    wanted: float
    is_cost: bool = True  # at most `wanted`; else at least
    is_ratio: bool = True  # `wanted` is about value / reference; else about the value


MESH_CASES = {
    "allocate_and_free": MeshCase("ns", 250, is_ratio=False),
    "allocate_on_256": MeshCase("ns", 1.5),
    "enqueue_empty": MeshCase("ns", 200, is_ratio=False),
    "record_and_wait": MeshCase("us", 1, is_ratio=False),
    "write_64MiB": MeshCase("GB/s", 0.85, is_cost=False),
    "read_64MiB": MeshCase("GB/s", 0.85, is_cost=False),
    "write_columns": MeshCase("GB/s", 0.7, is_cost=False),
    "replicate_to_8": MeshCase("B", 1.01),
    "replay_100": MeshCase("us", 0.3),
}


def measure_mesh() -> list[Record]:
    records = []
    for name, case in MESH_CASES.items():
        command = [str(BINARIES / "tilemesh-bench"), "mesh", name]
        output = json.loads(subprocess.run(command, check=True, capture_output=True,
                                           text=True).stdout)
        value, reference = output["value"], output["reference"] or None
        if value == 0:
            continue  # not in this build
        ratio = value / reference if reference else None
        judged = ratio if case.is_ratio and ratio is not None else value
        records.append(Record("mesh", name, value, case.unit, reference, ratio, case.wanted,
                              judged <= case.wanted if case.is_cost else judged >= case.wanted))
    return records


@dataclasses.dataclass
class CollectiveCase:
    """All devices reduce `bytes` of floats; wanted: so many times as fast as OpenMPI."""
    bytes: int
    calls: int
    wanted: float
    tuned: bool = False


COLLECTIVES = {
    "all_reduce_1KiB": CollectiveCase(1 << 10, 1000, 0),  # wanted of its time, see below
    "all_reduce_1MiB": CollectiveCase(1 << 20, 20, 8),
    "all_reduce_64MiB": CollectiveCase(64 << 20, 2, 3, tuned=True),
}
# What spares OpenMPI the first touch of small pages again and again.
TUNED = ("glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
         "glibc.malloc.trim_threshold=8589934592")


def open_mpi(case: CollectiveCase) -> float:
    """Microseconds, the median of its rounds; two ranks, each with a core."""
    command = ["mpirun", "-n", "2", "--bind-to", "core"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    environment = os.environ | ({"GLIBC_TUNABLES": TUNED} if case.tuned else {})
    output = subprocess.run([*command, str(BINARIES / "mpi-all-reduce"), str(case.bytes),
                             str(case.calls)], check=True, capture_output=True, text=True,
                            env=environment).stdout
    return float(json.loads(output)["us"])


def measure_collectives() -> list[Record]:
    def ours_of(name: str) -> dict[str, float]:
        command = [str(BINARIES / "tilemesh-bench"), "collectives", name]
        return json.loads(subprocess.run(command, check=True, capture_output=True,
                                         text=True).stdout)

    records = []
    has_rival = shutil.which("mpirun") is not None and (BINARIES / "mpi-all-reduce").is_file()
    if not has_rival:
        print("collectives: no OpenMPI here to compare with: install openmpi-bin and "
              "libopenmpi-dev, and build again")
    for name, case in COLLECTIVES.items():
        pairs = [(ours_of(name)["value"], open_mpi(case) if has_rival else math.nan)
                 for _ in range(3)]
        our_us, rival_us = (statistics.median(side) for side in zip(*pairs))
        ratio = rival_us / our_us if has_rival else None
        if case.wanted == 0:
            records.append(Record("collectives", name, our_us, "us",
                                  rival_us if has_rival else None, ratio, 1.5, our_us <= 1.5))
        elif ratio is not None:
            records.append(Record("collectives", name, our_us, "us", rival_us, ratio, case.wanted,
                                  ratio >= case.wanted))
    both = [ours_of("on_64") for _ in range(3)]
    many, few = (statistics.median(run[side] for run in both) for side in ("value", "reference"))
    records.append(Record("collectives", "on_64_to_8", many, "us", few, many / few, 8,
                          many <= 8 * few))
    return records


def measure_partition() -> list[Record]:
    """The encoder on two devices of one thread, against onnxruntime with two threads."""
    def on_mesh(case: models.Case, name: str, *options: str) -> Measure:
        binary = models.ROOT / "build" / "bench" / f"encoder_{name}.tmb"
        compile_model(case, binary, *options)
        return ours("run", str(binary))

    def record(name: str, our: Measure, rival: Measure, wanted: float) -> Record:
        our_us, rival_us = in_turns(our, rival)
        ratio = rival_us / our_us
        return Record("partition", name, our_us, "us", rival_us, ratio, wanted, ratio >= wanted)

    def rival(case: models.Case) -> Measure:
        return rival_run(rival_session(str(case.path), threads=2), case.make_inputs())

    one, eight = models.ENCODER, models.ENCODER_8
    tensor = on_mesh(one, "tensor", "--mesh", "1x2", "--auto", "tensor")
    data = on_mesh(eight, "data", "--mesh", "1x2", "--auto", "data")
    alone = on_mesh(eight, "alone")
    return [record("tensor_1x2_batch_1", tensor, rival(one), 1.4),
            record("data_1x2_batch_8", data, rival(eight), 1.15),
            record("two_devices_on_one", data, alone, 1.85),
            measure_parameters(one, wanted=0.27)]


def measure_parameters(case: models.Case, wanted: float) -> Record:
    """What the parameters take of a device's memory when four share them."""
    def parameter_bytes(name: str, *options: str) -> int:
        binary = models.ROOT / "build" / "bench" / f"encoder_{name}.tmb"
        compile_model(case, binary, *options)
        command = [str(BINARIES / "tilemesh"), "inspect", str(binary), "--json"]
        program = json.loads(subprocess.run(command, check=True, capture_output=True,
                                            text=True).stdout)["programs"][0]
        return sum(parameter["bytes_per_device"] for parameter in program["parameters"])

    ours_bytes = parameter_bytes("quarter", "--mesh", "1x4", "--auto", "tensor")
    whole = parameter_bytes("whole")
    ratio = ours_bytes / whole
    return Record("partition", "parameters_1x4", ours_bytes, "B", whole, ratio, wanted,
                  ratio <= wanted)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path,
                        default=models.ROOT / "build" / "bench.json")
    groups: dict[str, Callable[[], list[Record]]] = {
        "mesh": measure_mesh,
        "collectives": measure_collectives,
        "partition": measure_partition,
        "models": lambda: measure_models(wanted_mean=0.8, wanted_load=5.0),
        "small": lambda: [measure_add(wanted_us=1.4)],
    }
    parser.add_argument("--group", choices=groups, help="only this group")
    options = parser.parse_args()
    records = [record for name, measure in groups.items() if options.group in (None, name)
               for record in measure()]
    print(f"{'group':11} {'name':20} {'ours':>17} {'reference':>14} {'ratio':>8} {'wanted':>7}")
    for record in records:
        wanted = "" if record.wanted is None else f"{record.wanted:g}"
        verdict = {None: "", True: "ok", False: "falls short"}[record.ok]
        print(f"{record.group:11} {record.name:20} {record.value:12.2f} {record.unit:5}"
              f"{number(record.reference):>14} {number(record.ratio):>8} {wanted:>7} {verdict}")
    options.output.write_text(json.dumps([dataclasses.asdict(r) for r in records], indent=1) + "\n")
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
