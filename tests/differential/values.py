"""Tensors whose values break rewrites: offsets, tiny scales, ties, NaN, infinity, -0.0, denormals,
the limits of each type."""

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
I8, I16, I32, I64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
U8, U16, U32, U64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
BOOL = np.dtype(np.bool_)

FLOATS = (F32, F16, BF16, F64)
INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)
NUMBERS = FLOATS + INTEGERS

# Odd kinds are rare enough that most models say something about all their elements.
FLOAT_KINDS = {"plain": 9, "ties": 3, "offset": 2, "tiny": 2, "wide": 2, "specials": 2,
               "limits": 1, "denormals": 0.5, "positive": 2, "zeros": 0.5}
INTEGER_KINDS = {"small": 6, "ties": 2, "wide": 1, "limits": 0.7}


def is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS


def choose(rng: np.random.Generator, weights: dict):
    """A key, in proportion to its weight."""
    names = list(weights)
    parts = np.array([weights[name] for name in names], np.float64)
    return names[int(rng.choice(len(names), p=parts / parts.sum()))]


def _limits(dtype: np.dtype) -> tuple[float, float, float]:
    """The largest, the smallest normal and the smallest denormal number."""
    info = ml_dtypes.finfo(dtype)
    return float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)


def floats(rng: np.random.Generator, dtype: np.dtype, shape: tuple, kind: str | None = None):
    kind = kind or choose(rng, FLOAT_KINDS)
    largest, normal, denormal = _limits(dtype)
    plain = rng.uniform(-2, 2, shape)
    if kind == "ties":
        values = rng.integers(-4, 5, shape) / 2
    elif kind == "offset":
        values = plain + (1e6 if dtype in (F32, F64, BF16) else 1e3) * rng.choice([1, -1])
    elif kind == "tiny":
        values = plain * 1e-3
    elif kind == "wide":
        values = np.sign(plain) * 10 ** rng.uniform(-4, 4, shape)
    elif kind == "specials":
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, denormal]
        values = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), plain)
    elif kind == "limits":
        odd = [largest, -largest, normal, -normal, largest / 2, 0.5 * np.sqrt(largest), 1.0]
        values = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), plain)
    elif kind == "denormals":
        values = rng.integers(-3, 4, shape) * denormal * 5
    elif kind == "positive":
        values = np.abs(plain) + 0.05
    elif kind == "zeros":
        values = np.where(plain < 0, -0.0, 0.0)
    else:
        values = plain
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype).reshape(shape)


def integers(rng: np.random.Generator, dtype: np.dtype, shape: tuple, kind: str | None = None):
    kind = kind or choose(rng, INTEGER_KINDS)
    info = np.iinfo(dtype)
    low = -4 if info.min < 0 else 0
    if kind == "ties":
        values = rng.integers(low // 2, 3, shape)
    elif kind == "wide":
        values = rng.integers(max(info.min, -(2**31)), min(info.max, 2**31), shape)
    elif kind == "limits":
        odd = [v for v in (info.min, info.max, info.max - 1, 0, 1, 2**31 - 1, 2**31, 2**53 - 1,
                           2**53 + 1, 2**24 + 1) if v <= info.max]
        values = np.array([odd[i] for i in rng.integers(0, len(odd), int(np.prod(shape)))],
                          dtype=object)
    else:
        values = rng.integers(low, 8, shape)
    return np.asarray(values).astype(dtype).reshape(shape)


def tensor(rng: np.random.Generator, dtype: np.dtype, shape: tuple, kind: str | None = None):
    """Elements of one kind; `kind` is of floats or integers, as the dtype is."""
    if dtype == BOOL:
        return np.asarray(rng.random(shape) < 0.5).reshape(shape)
    if is_float(dtype):
        return floats(rng, dtype, shape, kind if kind in FLOAT_KINDS else None)
    return integers(rng, dtype, shape, kind if kind in INTEGER_KINDS else None)
