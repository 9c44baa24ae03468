"""The models of the pinned wheels and those that we make, with inputs that make sense for them."""

import dataclasses
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build" / "models"

Inputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """One model with the shapes of its inputs; a scalar stands for itself."""

    file: str
    inputs: dict[str, tuple[int, ...] | int]
    splits: tuple[tuple[str, str], ...] = ()  # mesh and --auto, beside the replicated meshes

    @property
    def path(self) -> pathlib.Path:
        return MODELS / self.file

    @property
    def name(self) -> str:
        sizes = ["x".join(map(str, shape)) for shape in self.inputs.values()
                 if isinstance(shape, tuple)]
        rate = f" {self.inputs['sr']} Hz" if "sr" in self.inputs else ""
        return f"{self.path.stem} {sizes[0]}{rate}"

    def make_inputs(self, seed: int = 0) -> Inputs:
        """Seeded numbers; rank-0 integers as they are given."""
        random = np.random.default_rng(seed)
        made: Inputs = {}
        for name, shape in self.inputs.items():
            if isinstance(shape, tuple):
                scale = 0.1 if name == "input" else 1.0  # sound is quieter than pictures
                made[name] = (scale * random.standard_normal(shape)).astype(np.float32)
            else:
                made[name] = np.array(shape, dtype=np.int64)
        return made


DATA = (("1x2", "data"), ("1x8", "data"))
TENSOR = (("1x2", "tensor"), ("1x4", "tensor"), ("2x2", "tensor"))


def silero(file: str, samples: int, rate: int | None, batch: int = 1) -> Case:
    inputs: dict[str, tuple[int, ...] | int] = {"input": (batch, samples),
                                                "state": (2, batch, 128)}
    if rate is not None:
        inputs["sr"] = rate
    return Case(file, inputs, DATA if batch > 1 else ())


VAD = silero("silero_vad.onnx", 576, 16000)
CLS = Case("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)})
REC = Case("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)})
DET = Case("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 160, 224)})
ENCODER = Case("encoder.onnx", {"x": (1, 128, 384)}, TENSOR)
ENCODER_8 = Case(ENCODER.file, {"x": (8, 128, 384)}, (*DATA, ("2x2", "data,tensor")))

# What is timed: ready-made models, and the encoder at two batches.
ENCODERS = {"encoder_1": ENCODER, "encoder_8": ENCODER_8}
TIMED = {"silero_vad": VAD, "ppocr_cls": CLS, "ppocr_rec": REC, "ppocr_det": DET}

# What is compared.
ALL = (
    VAD,
    silero("silero_vad.onnx", 288, 8000),
    silero("silero_vad.onnx", 576, 16000, batch=3),
    silero("silero_vad_16k_op15.onnx", 576, 16000),
    silero("silero_vad_op18_ifless.onnx", 576, 16000),
    silero("silero_vad_op18_ifless.onnx", 288, 8000),
    silero("silero_vad_half.onnx", 576, None),
    silero("silero_vad_openvino_16k.onnx", 576, None),
    Case("silero_vad_16k_sequence.onnx",
         {"input": (7, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    CLS,
    Case(CLS.file, {"x": (2, 3, 48, 192)}),
    REC,
    Case(REC.file, {"x": (1, 3, 48, 333)}),
    Case(REC.file, {"x": (8, 3, 48, 96)}, DATA),
    DET,
    Case(DET.file, {"x": (1, 3, 96, 352)}),
    Case(DET.file, {"x": (8, 3, 64, 96)}, DATA),
    ENCODER,
    ENCODER_8,
)
