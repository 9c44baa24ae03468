"""The program that compiles and runs models here, kept running from model to model."""

import json
import pathlib
import select
import subprocess
import tempfile
import time

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "build" / "dev" / "bin" / "model_server"

NAMES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64,
         "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u64": np.uint64,
         "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_}
OURS = {np.dtype(value): key for key, value in NAMES.items()}


class Answer:
    """What became of a model: ok with outputs; refused; failed; crashed; hung."""

    def __init__(self, status: str, message: str = "", outputs: dict | None = None):
        self.status = status
        self.message = message
        self.outputs = outputs or {}


class Server:
    """One process; started again after a crash or a hang."""

    def __init__(self, program: pathlib.Path = DEFAULT, timeout: float = 30):
        self._program = program
        self._timeout = timeout
        self._process = None
        self._messages = tempfile.TemporaryFile()
        self._buffer = b""

    def _start(self) -> None:
        self._messages.seek(0)
        self._messages.truncate()
        self._buffer = b""
        self._process = subprocess.Popen([self._program], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._messages, bufsize=0)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _read(self, count: int | None, deadline: float) -> bytes:
        """`count` bytes, or a line."""
        while True:
            end = self._buffer.find(b"\n") + 1 if count is None else count
            if 0 < end <= len(self._buffer) or end == count == 0:
                found, self._buffer = self._buffer[:end], self._buffer[end:]
                return found
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise TimeoutError
            more = self._process.stdout.read(1 << 20)
            if not more:
                raise EOFError
            self._buffer += more

    def run(self, model: bytes, inputs: dict[str, np.ndarray], mesh: tuple[int, int] = (1, 1),
            shards: list[str] | None = None) -> Answer:
        if self._process is None:
            self._start()
        arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        header = {"model": len(model), "mesh": list(mesh), "shards": shards or [],
                  "inputs": [{"name": name, "dtype": OURS[array.dtype], "shape": list(inputs[name].shape),
                              "bytes": array.nbytes} for name, array in arrays.items()]}
        try:
            self._process.stdin.write(json.dumps(header).encode() + b"\n" + model
                                      + b"".join(a.tobytes() for a in arrays.values()))
            return self._answer(time.monotonic() + self._timeout)
        except TimeoutError:
            self.close()
            return Answer("hung", f"no answer within {self._timeout:g} s")
        except (EOFError, BrokenPipeError):
            return self._crashed()

    def _answer(self, deadline: float) -> Answer:
        reply = json.loads(self._read(None, deadline))
        outputs = {}
        for output in reply["outputs"]:
            data = self._read(output["bytes"], deadline)
            array = np.frombuffer(data, NAMES[output["dtype"]])
            outputs[output["name"]] = array.reshape(output["shape"])
        text = f"{reply.get('code', '')}: {reply.get('message', '')}" if "code" in reply else ""
        return Answer(reply["status"], text, outputs)

    def _crashed(self) -> Answer:
        code = self._process.wait()
        self._messages.seek(0)
        said = self._messages.read().decode(errors="replace").strip().splitlines()
        self._process = None
        return Answer("crashed", f"ended with {code}: {' | '.join(said[-3:])[-600:]}")
