"""Functions of single elements, and of two or three that broadcast."""

import numpy as np

from model import Builder, Skip, onnx_type
from table import row
from values import (BF16, BOOL, F16, F32, F64, FLOATS, I8, I16, I32, I64, INTEGERS, NUMBERS, U8, U16,
                    U32, U64)

SIGNED = (*FLOATS, I8, I16, I32, I64)


def _unary(name: str, dtypes=FLOATS, kind: str | None = None, since: int = 7, **draws) -> None:
    """A row for a function of one tensor, whose attributes are drawn from lists: given or left out."""
    def make(b: Builder):
        x = b.pick(dtypes, kind=kind if b.chance(0.6) else None)
        given = {key: float(b.one(options)) for key, options in draws.items() if b.chance(0.85)}
        return b.node(name, [x], **given)
    row(name, since, elementwise=True)(make)


for _name in ("Abs", "Neg", "Sign"):
    _unary(_name, SIGNED)
for _name in ("Ceil", "Floor", "Round", "Cos", "Sin", "Tan", "Atan", "Asinh", "Sinh", "Cosh", "Erf",
              "Exp", "Reciprocal", "Sigmoid", "Softplus", "Softsign", "Tanh"):
    _unary(_name, since=11 if _name == "Round" else 9 if _name in ("Sinh", "Cosh", "Asinh", "Erf")
           else 7)
for _name in ("Log", "Sqrt", "Acosh"):
    _unary(_name, kind="positive", since=9 if _name == "Acosh" else 7)
for _name in ("Acos", "Asin", "Atanh"):
    _unary(_name, kind="ties", since=9 if _name == "Atanh" else 7)
_unary("Relu", SIGNED)
_unary("Elu", alpha=[1, 0.5, 2, -0.3, 0])
_unary("Celu", since=12, alpha=[1, 0.5, 2, -0.7])
_unary("LeakyRelu", alpha=[0.01, 0.1, 0.2, 1.5, -0.5, 0, 1])
_unary("Selu", alpha=[1.5, 0.3], gamma=[1, 1.1, 2])
_unary("HardSigmoid", alpha=[0.2, 1 / 6, 0.5, -0.3], beta=[0.5, 0, 0.3])
_unary("ThresholdedRelu", since=10, alpha=[1, 0.5, 0, -1])
_unary("Shrink", since=9, lambd=[0.5, 0, 1, 1.5], bias=[0, 0.5, -1])
_unary("HardSwish", since=14)
_unary("Mish", since=18)
_unary("Swish", since=24, alpha=[1, 0.5, 1.702])


@row("Not")
def _not(b: Builder):
    return b.node("Not", [b.pick((BOOL,))])


@row("IsNaN", since=9)
def _is_nan(b: Builder):
    return b.node("IsNaN", [b.pick(FLOATS, kind="specials")])


@row("IsInf", since=10)
def _is_inf(b: Builder):
    return b.node("IsInf", [b.pick((F32, F64), kind="specials")],
                  detect_negative=b.one([None, 0, 1]), detect_positive=b.one([None, 0, 1]))


@row("Gelu", since=20, elementwise=True)
def _gelu(b: Builder):
    return b.node("Gelu", [b.pick()], approximate=b.one([None, "none", "tanh"]))


@row("Identity", elementwise=True)
def _identity(b: Builder):
    return b.node("Identity", [b.pick((*NUMBERS, BOOL))])


@row("BitwiseNot", since=18)
def _bitwise_not(b: Builder):
    return b.node("BitwiseNot", [b.pick(INTEGERS)])


def _binary(name: str, dtypes, since: int = 7, elementwise: bool = False, **draws) -> None:
    def make(b: Builder):
        x = b.pick(dtypes)
        operands = [x, b.broadcast(x)]
        if b.chance(0.4):
            operands.reverse()
        return b.node(name, operands, **{k: b.one(v) for k, v in draws.items()})
    row(name, since, elementwise=elementwise)(make)


for _name in ("Add", "Sub", "Mul"):
    _binary(_name, (*FLOATS, *FLOATS, I32, I64, I8, U8), elementwise=True)
for _name in ("And", "Or", "Xor"):
    _binary(_name, (BOOL,))
for _name in ("Equal", "Greater", "Less"):
    _binary(_name, (*FLOATS, I32, I64), since=11 if _name == "Equal" else 9)
for _name in ("GreaterOrEqual", "LessOrEqual"):
    _binary(_name, (*FLOATS, I32, I64), since=12)
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    _binary(_name, INTEGERS, since=18)


@row("Div", elementwise=True)
def _div(b: Builder):
    x = b.pick((*FLOATS, I32, I64))
    if x.dtype in FLOATS:
        return b.node("Div", [x, b.broadcast(x)][::b.one([1, -1])])
    divisor = b.one([2, 3, 7, -3, 1, 16])
    return b.node("Div", [x, b.const(divisor, x.dtype)])


@row("Pow")
def _pow(b: Builder):
    x = b.pick((F32, F16, F64, I32, I64), kind="positive" if b.chance(0.5) else None)
    power = b.one([2, 3, 0.5, 0, 1, -1, 1.5, -0.5]) if x.dtype in FLOATS else b.one([2, 3, 1, 0])
    if b.opset >= 12 and b.chance(0.3):
        return b.node("Pow", [x, b.const(b.one([2, 3, 0]), b.one([F32, I64, I32]))])
    if b.chance(0.3) and x.dtype in FLOATS:
        return b.node("Pow", [x, b.new(x.shape, x.dtype, "ties")])
    return b.node("Pow", [x, b.const(power, x.dtype)])


@row("Mod", since=10)
def _mod(b: Builder):
    x = b.pick((*FLOATS[:2], F64, *INTEGERS))
    y = b.one([1, 2, 3, 5, 7])
    if x.dtype in FLOATS:
        return b.node("Mod", [x, b.const(b.one([1.5, 0.25, -2, 61, 1]), x.dtype)], fmod=1)
    negative = x.dtype in SIGNED and b.chance(0.3)
    return b.node("Mod", [x, b.const(-y if negative else y, x.dtype)], fmod=b.one([None, 0, 1]))


@row("BitShift", since=11)
def _bit_shift(b: Builder):
    x = b.pick((U8, U16, U32, U64))
    by = b.rng.integers(0, x.dtype.itemsize * 8, x.shape if b.chance(0.5) else ())
    return b.node("BitShift", [x, b.const(by, x.dtype)], direction=b.one(["LEFT", "RIGHT"]))


@row("PRelu", elementwise=True)
def _prelu(b: Builder):
    x = b.pick((F32, F16, F64))
    sizes = b.one([x.shape, (), x.shape[-1:], (x.shape[1], 1, 1) if x.rank == 4 else ()])
    return b.node("PRelu", [x, b.new(sizes, x.dtype, constant=0.7)])


@row("Where", since=9)
def _where(b: Builder):
    x = b.pick((*FLOATS, I32, I64, U8, BOOL))
    operands = [x, b.broadcast(x)]
    if b.chance(0.4):
        operands.reverse()
    return b.node("Where", [b.broadcast(x, BOOL), *operands])


def _variadic(name: str, dtypes) -> None:
    def make(b: Builder):
        x = b.pick(dtypes)
        operands = [x] + [b.broadcast(x) for _ in range(b.one([0, 1, 1, 1, 2, 3]))]
        b.rng.shuffle(operands)
        return b.node(name, operands)
    row(name, since=8, elementwise=name in ("Max", "Min"))(make)


_variadic("Max", (F32, F32, F16, F64, BF16, I32, I64))
_variadic("Min", (F32, F32, F16, F64, BF16, I32, I64))
_variadic("Mean", (F32, F64, F16))
_variadic("Sum", (F32, F64, F16))


@row("Clip", elementwise=True)
def _clip(b: Builder):
    low, high = b.one([(0, 6), (0, 1), (-1, 1), (-3, 3), (0.25, 0.5), (-2, 0), (1, -1)])
    if b.opset < 11:
        return b.node("Clip", [b.pick((F32, F16, F64))], min=b.one([None, float(low)]),
                      max=b.one([None, float(high)]))
    x = b.pick((F32, F16, F64, BF16, I32, I64, I8, U8) if b.opset >= 13 else (F32, F64))
    if x.dtype in (U8,):
        low, high = 1, 5
    bounds = [b.const(bound, x.dtype) if b.chance(0.8) else None for bound in (low, high)]
    return b.node("Clip", [x, *bounds])


def _cast_target(b: Builder, x) -> np.dtype:
    floats = [t for t in FLOATS if t is not BF16 or b.opset >= 13]
    target = b.one([*floats, *floats, I32, I64, I8, U8, I16, U16, U32, U64, BOOL])
    if x.dtype in FLOATS and target in (U8, U16, U32, U64):
        target = I32  # of negative numbers it is undefined
    return target


@row("Cast")
def _cast(b: Builder):
    x = b.pick((*FLOATS, *INTEGERS, BOOL))
    return b.node("Cast", [x], to=onnx_type(_cast_target(b, x)))


@row("CastLike", since=15)
def _cast_like(b: Builder):
    x = b.pick((*FLOATS, *INTEGERS, BOOL))
    return b.node("CastLike", [x, b.new((1,), _cast_target(b, x))])


@row("Dropout")
def _dropout(b: Builder):
    x = b.pick((F32, F64))
    outputs = b.one([1, 2])
    if b.opset < 12:
        return b.node("Dropout", [x], outputs if b.opset >= 10 else 1, ratio=0.3)
    return b.node("Dropout", [x, b.const(0.3, F32), b.one([None, b.const(False, BOOL)])], outputs)


def step(b: Builder, x, others: list):
    """One more elementwise step on float `x`, as epilogues are made of them, with numbers that differ
    from one to the next; `others` are values that it may read besides."""
    def constant(sizes=()):
        return b.const(b.rng.uniform(-2, 2, sizes) if sizes else b.one([0.5, 2, -1.5, 3, 0.7, 1e-3]),
                       x.dtype)

    def operand():
        same = [v for v in others if v.shape == x.shape and v.dtype == x.dtype]
        if same and b.chance(0.3):
            return b.one(same)
        return b.broadcast(x, one_way=True) if b.chance(0.5) else constant()

    def gated(name, **attributes):
        return b.node("Mul", [x, b.node(name, [x], **attributes)[0]][::b.one([1, -1])])[0]

    kind = b.below(11)
    if kind == 0:
        return b.node(b.one(["Relu", "Sigmoid", "Tanh", "Abs", "Softplus", "Exp", "Neg", "Floor",
                             "Erf", "Softsign", "Sqrt", "Reciprocal", "Round" if b.opset >= 11 else "Ceil"]),
                      [x])[0]
    if kind == 1:
        name, options = b.one([("LeakyRelu", [.1, .2, .01, 1.5]), ("Elu", [1., .5, 2.]),
                               ("ThresholdedRelu", [1., .3, 0.])])
        return b.node(name, [x], alpha=b.one(options))[0] if b.opset >= 10 else b.node("Elu", [x])[0]
    if kind == 2:
        return b.node("HardSigmoid", [x], alpha=b.one([.2, 1 / 6, .4]), beta=b.one([.5, .3]))[0]
    if kind == 3:
        low, high = b.one([(0, 6), (0, 1), (-1, 1), (-3, 3), (.1, .4)])
        if b.opset < 11:
            return b.node("Clip", [x], min=float(low), max=float(high))[0]
        return b.node("Clip", [x, b.const(low, x.dtype), b.const(high, x.dtype)])[0]
    if kind in (4, 5):
        return b.node(b.one(["Add", "Mul", "Sub"]), [x, constant()][::b.one([1, -1])])[0]
    if kind in (6, 7):
        return b.node(b.one(["Add", "Mul", "Sub", "Max", "Min"]), [x, operand()][::b.one([1, -1])])[0]
    if kind == 8:
        return gated("Sigmoid") if b.chance(0.5) else gated("HardSigmoid", alpha=1 / 6, beta=0.5)
    if kind == 9:
        return b.node("Div", [x, constant()])[0]
    if b.opset >= 20 and b.chance(0.5):
        return b.node("Gelu", [x])[0]
    if x.rank == 0:
        raise Skip("no channels")
    return b.node("PRelu", [x, constant(b.one([x.shape[-1:], (1,)]))])[0]
