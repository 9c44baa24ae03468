"""Decides whether what Tilemesh gave for a model is right.

1. Integers and truth values equal to onnxruntime's (the ONNX reference evaluator's where onnxruntime
   can't run the model), floats within a few units of their dtype: right, without more ado.
2. Else the float64 evaluation decides, with trials that show how far rounding alone can move each
   element (reference.py). An element is wrong if it is further from the float64 result than that, with
   room, and than onnxruntime's own error.
3. What is open by ONNX's text or a known disagreement of the oracles (known.py) is no difference, and
   is counted by its reason.
"""

import dataclasses

import ml_dtypes
import numpy as np
import onnxruntime

import known
from model import Case
from reference import ROUNDING, SINGLE, Double, Unknown, perturbed, rounded
from server import Answer, Server
from values import BF16, F64, FLOATS
from workers import Lost, apart

UNITS = 24       # of the dtype's rounding, relative to the element, that step 1 lets pass
ROOM = 32        # times what trials moved an element
TRIALS = 6
onnxruntime.set_default_logger_severity(4)

# Where a number: onnxruntime runs in a process of its own, and has so many seconds.
apart_seconds: float | None = None


@dataclasses.dataclass
class Verdict:
    """`kind`: equal, explained, refused, no oracle, or what is wrong: differs, failed, crashed, hung."""
    kind: str
    text: str = ""
    output: str = ""

    @property
    def wrong(self) -> bool:
        return self.kind in ("differs", "failed", "crashed", "hung")


def run_onnxruntime(case: Case, optimised: bool = False) -> dict[str, np.ndarray]:
    try:
        if apart_seconds is not None:
            return apart(apart_seconds, _run_onnxruntime, case, optimised)
        return _run_onnxruntime(case, optimised)
    except Lost as error:
        raise Unknown(f"onnxruntime: {error}") from error


def _run_onnxruntime(case: Case, optimised: bool) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(case.proto().SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        return dict(zip(case.outputs, _run(session, case)))
    except Exception as error:  # noqa: BLE001: its exceptions have no common class
        raise Unknown(str(error).splitlines()[0] if str(error) else repr(error)) from error


def _run(session, case: Case) -> list[np.ndarray]:
    if not any(a.dtype == BF16 for a in case.inputs.values()) and not any(
            case.types[name].dtype == BF16 for name in case.outputs):
        return session.run(None, case.inputs)
    raise Unknown("bfloat16 is no type of numpy for onnxruntime")


def close(got: np.ndarray, want: np.ndarray) -> bool:
    """Step 1."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    return bool(np.all(_near(got, want)))


def tiny(dtype: np.dtype) -> float:
    """Denormals may be flushed: absolute differences below the smallest normal number are none."""
    return float(ml_dtypes.finfo(dtype).smallest_normal)


class Truth:
    """The float64 evaluation of a case, and how far its rounding moves each element."""

    def __init__(self, case: Case, seed: int = 0):
        self.case = case
        evaluator = Double(case)
        self.values = evaluator.run()
        noise = np.random.default_rng(seed)
        self._trials = [evaluator.run(noise) for _ in range(TRIALS)]
        self._trials += [evaluator.run(noise, store=True) for _ in range(TRIALS)]
        self._trials.append(evaluator.run(store=True))

    def errors(self, name: str, got: np.ndarray) -> np.ndarray:
        """Each element's error as a multiple of what is let pass: above 1 is wrong."""
        dtype = self.case.types[name].dtype
        want = np.asarray(self.values[name])
        if got.shape != want.shape:
            return np.full(got.shape or (1,), np.inf)
        ideals = [want, *(t[name] for t in self._trials)]
        with np.errstate(all="ignore"):
            wide = [np.asarray(rounded(v, dtype), F64) for v in ideals]
            spread = np.max([np.abs(v - wide[0]) for v in wide], axis=0)
            value = got.astype(F64)
            # The same infinity or NaN as any of the trials is right.
            same = np.any([(value == v) | (np.isnan(value) & np.isnan(v)) for v in wide], axis=0)
            allowed = ROOM * spread
            if dtype in FLOATS:
                allowed = allowed + UNITS * ROUNDING[dtype] * np.abs(wide[0]) + tiny(dtype)
            error = np.abs(value - wide[0]) / allowed
        # Where rounding alone makes it infinite or not, or NaN or not, nothing can be said.
        kinds = np.stack([np.isnan(v) * 2 + np.isinf(v) * 1 for v in wide])
        unsure = np.any(kinds != kinds[0], axis=0)
        return np.where(same | unsure, 0, np.where(np.isnan(error), np.inf, error))


def oracle(case: Case) -> tuple[dict[str, np.ndarray], str]:
    """The outputs that step 1 compares with, and whose they are."""
    try:
        for node in case.nodes:
            if why := known.not_asked(node, case):
                raise Unknown(f"{node.op_type}: {why}")
        return run_onnxruntime(case), "onnxruntime"
    except Unknown as first:
        try:
            found = Double(case).run(store=True)
        except Unknown as second:
            raise Unknown(f"onnxruntime: {first}; reference: {second}") from second
        return {name: found[name].astype(case.types[name].dtype) for name in case.outputs}, "reference"


def explained(case: Case, source: str) -> str:
    """A reason of known.py that holds for a node of the case."""
    try:
        found = Double(case).run(store=True)
    except Unknown:
        found = {**case.constants, **case.inputs}
    for node in case.nodes:
        if any(n and n not in found for n in node.input) or node.output[0] not in case.types:
            continue
        read = [found[name] if name else None for name in node.input]
        made = case.types[node.output[0]].dtype
        limits = [float(ml_dtypes.finfo(a.dtype).max) for n in node.output if n
                  for a in [np.empty(0, case.types[n].dtype)] if a.dtype in FLOATS]
        if node.op_type in SINGLE:
            limits.append(float(np.finfo(np.float32).max))
        reason = known.open_result(node, read, made) or known.disagreement(node, read) or (
            source == "reference" and known.not_as_reference(node, read, case.opset)) or (
            known.overflows(node, read, min(limits)) if limits else "")
        if reason:
            return f"{node.op_type}: {reason}"
    return ""


def judge(case: Case, answer: Answer) -> Verdict:
    if answer.status == "refused":
        return Verdict("refused", answer.message)
    if answer.status in ("crashed", "hung"):
        return Verdict(answer.status, answer.message)
    try:
        wanted, source = oracle(case)
    except Unknown as error:
        return Verdict("no oracle", str(error))
    if answer.status == "failed":
        return Verdict("failed", answer.message)
    different = [name for name in case.outputs
                 if name not in answer.outputs or not close(answer.outputs[name], wanted[name])]
    if not different:
        return Verdict("equal", source)
    for name in different:
        if name not in answer.outputs:
            return Verdict("differs", f"output {name} is missing", name)
        got, want = answer.outputs[name], wanted[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            return Verdict("differs", f"{name}: {got.dtype}{list(got.shape)} for {want.dtype}"
                                      f"{list(want.shape)} of {source}", name)
    return _decide(case, answer, wanted, source, different)


def _decide(case: Case, answer: Answer, wanted: dict, source: str, different: list[str]) -> Verdict:
    """Steps 2 and 3, of what the outputs that differ hang on."""
    case = case.clone()
    case.outputs = different
    case.prune()
    try:
        truth = Truth(case)
    except Unknown as error:
        return _without_truth(case, answer, wanted, source, different, str(error))
    for name in different:
        ours = truth.errors(name, answer.outputs[name])
        theirs = truth.errors(name, wanted[name])
        wrong = (ours > 1) & (ours > 4 * theirs)
        if source == "onnxruntime" and np.any(theirs > 1) and not np.any(ours > 1):
            continue  # onnxruntime alone is off
        # Where the oracles part, we may go with either.
        wrong &= ~_near(answer.outputs[name], wanted[name])
        if not np.any(wrong):
            continue
        reason = explained(case, source)
        if reason:
            return Verdict("explained", reason, name)
        at = int(np.argmax(np.where(wrong, np.where(np.isinf(ours), 1e300, ours), -1)))
        return Verdict("differs", _describe(name, at, int(np.count_nonzero(wrong)), answer.outputs[name],
                                            wanted[name], truth.values[name], source), name)
    return Verdict("equal", "within rounding")


def _near(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    if got.dtype not in FLOATS:
        return got == want
    with np.errstate(all="ignore"):
        a, b = got.astype(F64), want.astype(F64)
        near = np.abs(a - b) <= UNITS * ROUNDING[got.dtype] * np.abs(b) + tiny(got.dtype)
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b))


def _without_truth(case: Case, answer: Answer, wanted: dict, source: str, different: list[str],
                   why: str) -> Verdict:
    """By how far onnxruntime's own results move when its inputs do."""
    reason = explained(case, source)
    if reason:
        return Verdict("explained", reason)
    noise = np.random.default_rng(0)
    moved = {name: np.zeros(wanted[name].shape) for name in different}
    for _ in range(TRIALS):
        other = case.clone()
        other.inputs, other.constants = perturbed(case, noise)
        try:
            found = run_onnxruntime(other)
        except Unknown:
            continue
        for name in different:
            with np.errstate(all="ignore"):
                change = np.abs(found[name].astype(F64) - wanted[name].astype(F64))
            moved[name] = np.maximum(moved[name], np.where(np.isnan(change), 0, change))
    for name in different:
        got, want = answer.outputs[name], wanted[name]
        with np.errstate(all="ignore"):
            good = _near(got, want) | (np.abs(got.astype(F64) - want.astype(F64)) <= ROOM * moved[name])
        if not np.all(good):
            at = int(np.argmin(good))
            text = _describe(name, at, int(np.count_nonzero(~good)), got, want, None, "onnxruntime")
            return Verdict("differs", f"{text} (no float64 result: {why[:80]})", name)
    return Verdict("equal", "within rounding")


def _describe(name: str, at: int, count: int, got, want, truth, source: str) -> str:
    double = "" if truth is None else f", {np.asarray(truth).flat[at]} in float64"
    where = [int(i) for i in np.unravel_index(at, got.shape)] if got.ndim else []
    return (f"{name}{where}: {got.flat[at]}, {want.flat[at]} by {source}{double}; "
            f"{count} of {got.size} elements")


def try_case(server: Server, case: Case, mesh: tuple[int, int] = (1, 1),
             shards: list[str] | None = None) -> Verdict:
    return judge(case, server.run(case.proto().SerializeToString(), case.inputs, mesh, shards))
