"""The judge is judged: it must see what is wrong, and let pass what is rounding."""

import os
import time
import unittest

import numpy as np
from onnx import helper

import generator
import known
import table
from judge import close, judge
from model import Builder, Case, Skip, Value, infer
from reference import Double
from server import Answer
from shrink import shrink
from values import BF16, BOOL, F16, F32, F64, I64, tensor
from workers import Lost, apart, work_off


def chain(*steps: tuple, x: np.ndarray) -> Case:
    """Nodes (operator, constant or None, attributes), each on the one before."""
    b = Builder(np.random.default_rng(0), 17, F32)
    value = b.add(x)
    for op, constant, given in steps:
        operands = [value] if constant is None else [value, b.const(constant, x.dtype)]
        value = b.node(op, operands, **given)[0]
    b.case.outputs = [value.name]
    return b.case


def verdict(case: Case, array: np.ndarray):
    return judge(case, Answer("ok", "", {case.outputs[0]: array}))


class Judge(unittest.TestCase):
    def test_what_onnxruntime_gives_is_right_and_one_element_off_is_not(self):
        x = np.array([-2, -0.5, 0.25, 3], np.float32)
        case = chain(("LeakyRelu", None, {"alpha": 0.5}), ("Mul", 3, {}), x=x)
        right = np.array([-3, -0.75, 0.75, 9], np.float32)
        self.assertEqual(verdict(case, right).kind, "equal")
        right[1] = -0.7501
        self.assertEqual(verdict(case, right).kind, "differs")
        self.assertIn("[1]: -0.7501", verdict(case, right).text)

    def test_cancellation_is_held_to_the_rounding_of_its_operands_alone(self):
        x = np.array([1e6 + 0.5], np.float32)
        case = chain(("Add", 0.25, {}), ("Sub", 1e6, {}), x=x)
        self.assertEqual(verdict(case, np.array([0.8125], np.float32)).kind, "equal")
        self.assertEqual(verdict(case, np.array([25.0], np.float32)).kind, "differs")

    def test_exact_chains_have_no_tolerance_for_ties(self):
        x = np.array([1.0, 2.0, 2.0], np.float32)
        case = chain(("Neg", None, {}), ("ArgMin", None, {"axis": 0}), x=x)
        self.assertEqual(verdict(case, np.array([1], np.int64)).kind, "equal")
        self.assertEqual(verdict(case, np.array([2], np.int64)).kind, "differs")

    def test_a_rounding_that_decides_an_integer_may_go_either_way(self):
        x = np.array([0.1], np.float32)
        case = chain(("Mul", 5, {}), ("Round", None, {}), x=x)
        for good in (0.0, 1.0):
            self.assertEqual(verdict(case, np.array([good], np.float32)).kind, "equal")

    def test_nan_and_infinity_are_told_apart(self):
        x = np.array([np.nan, np.inf, 1], np.float32)
        case = chain(("Relu", None, {}), x=x)
        self.assertEqual(verdict(case, x).kind, "equal")
        self.assertEqual(verdict(case, np.array([0, np.inf, 1], np.float32)).kind, "differs")
        self.assertEqual(verdict(case, np.array([np.nan, 3.4e38, 1], np.float32)).kind, "differs")

    def test_shape_dtype_and_missing_outputs_are_wrong(self):
        case = chain(("Abs", None, {}), x=np.ones(3, np.float32))
        self.assertEqual(verdict(case, np.ones((3, 1), np.float32)).kind, "differs")
        self.assertEqual(verdict(case, np.ones(3, np.float64)).kind, "differs")
        self.assertEqual(judge(case, Answer("ok")).kind, "differs")

    def test_refusals_and_failures_are_no_agreement(self):
        case = chain(("Abs", None, {}), x=np.ones(3, np.float32))
        for status in ("refused", "failed", "crashed", "hung"):
            self.assertEqual(judge(case, Answer(status, "why")).kind, status)

    def test_open_results_are_explained_with_a_reason(self):
        case = chain(("Cast", None, {"to": 6}), x=np.array([3e9, 1], np.float32))
        found = verdict(case, np.array([7, 1], np.int32))
        self.assertEqual(found.kind, "explained")
        self.assertIn("can't hold", found.text)

    def test_close_counts_in_units_of_the_dtype(self):
        for dtype, unit in ((F32, 2.0**-24), (F16, 2.0**-11), (BF16, 2.0**-8), (F64, 2.0**-53)):
            one = np.ones(2, dtype)
            self.assertTrue(close((one.astype(F64) * (1 + 4 * unit)).astype(dtype), one))
            self.assertFalse(close((one.astype(F64) * (1 + 64 * unit)).astype(dtype), one))


class Reference(unittest.TestCase):
    def test_float64_keeps_what_float32_loses(self):
        case = chain(("Add", 1e8, {}), ("Sub", 1e8, {}), x=np.array([0.5], np.float32))
        self.assertEqual(Double(case).run()[case.outputs[0]][0], 0.5)
        self.assertEqual(Double(case).run(store=True)[case.outputs[0]][0], 0.0)

    def test_a_cast_to_a_shorter_float_rounds(self):
        case = chain(("Cast", None, {"to": 10}), x=np.array([1.0 + 2.0**-13], np.float32))
        self.assertEqual(Double(case).run()[case.outputs[0]][0], 1.0)

    def test_pools_count_what_is_inside(self):
        given = {"kernel_shape": [2], "strides": [2], "pads": [1, 0]}
        case = chain(("AveragePool", None, given), x=np.array([[[2, 4, 6]]], np.float32))
        np.testing.assert_array_equal(Double(case).run()[case.outputs[0]], [[[2, 5]]])
        case = chain(("AveragePool", None, given | {"count_include_pad": 1}),
                     x=np.array([[[2, 4, 6]]], np.float32))
        np.testing.assert_array_equal(Double(case).run()[case.outputs[0]], [[[1, 5]]])


class Generators(unittest.TestCase):
    def test_equal_seeds_give_equal_models(self):
        for number in range(20):
            a, b = (generator.Generator(5).make(number) for _ in range(2))
            self.assertEqual(a.proto().SerializeToString(), b.proto().SerializeToString())

    def test_models_are_valid_and_typed(self):
        for number in range(60):
            case = generator.Generator(6).make(number)
            self.assertTrue(case.outputs)
            for node in case.nodes:
                known_types = {n: case.types[n] for n in node.output if n in case.types}
                if len(known_types) < sum(map(bool, node.output)):
                    continue  # a sequence
                try:
                    inferred = infer(case, node)
                except Skip:
                    continue  # the row has told the types itself
                self.assertEqual({v.name: v for v in inferred}, known_types)

    def test_every_row_makes_a_model(self):
        missing = []
        for name, row in table.ROWS.items():
            made = generator.Generator(1, only=[name], newest=26)
            try:
                self.assertIn(name, made.make(0).operators())
            except Exception as error:  # noqa: BLE001: all are listed at once
                missing.append(f"{name} (since {row.since}): {error}")
        self.assertEqual(missing, [])

    def test_values_are_odd_now_and_then(self):
        rng = np.random.default_rng(0)
        arrays = [tensor(rng, F32, (8,)) for _ in range(400)]
        self.assertTrue(any(np.isnan(a).any() for a in arrays))
        self.assertTrue(any(np.isinf(a).any() for a in arrays))
        self.assertTrue(any((np.abs(a) > 9e5).all() for a in arrays))
        self.assertTrue(any(((a != 0) & (np.abs(a) < 1e-38)).any() for a in arrays))
        self.assertTrue(any((np.signbit(a) & (a == 0)).any() for a in arrays))
        self.assertEqual(tensor(rng, BOOL, (2, 0)).shape, (2, 0))

    def test_shrinking_leaves_the_node_that_is_wrong(self):
        case = chain(("Abs", None, {}), ("Mul", 2, {}), ("Round", None, {}), ("Add", 1, {}),
                     x=np.array([1.5, -2], np.float32))

        def wrong(one: Case):
            kind = "differs" if "Round" in one.operators() else "equal"
            return type("V", (), {"kind": kind, "text": ""})()
        small, _ = shrink(case, wrong(case), wrong)
        self.assertEqual(small.operators(), ["Round"])


class Known(unittest.TestCase):
    def test_what_is_open_is_found_by_its_values(self):
        cast = helper.make_node("Cast", ["x"], ["y"], to=7)
        self.assertTrue(known.open_result(cast, [np.array([1e30], np.float32)], I64))
        self.assertFalse(known.open_result(cast, [np.array([1e3], np.float32)], I64))
        gemm = helper.make_node("MatMul", ["x", "w"], ["y"])
        large = np.array([[3e38]], np.float32)
        self.assertTrue(known.overflows(gemm, [large, np.array([[2]], np.float32)], 3.4e38))
        self.assertFalse(known.overflows(gemm, [large / 1e3, np.array([[2]], np.float32)], 3.4e38))


def fragile(number: int, careful: bool) -> dict:
    """Work that ends its process, always or when it is in a hurry, or takes for ever."""
    if number == 1 or (number == 2 and not careful):
        os._exit(3)
    if number == 3:
        time.sleep(60)
    return {"number": number, "careful": careful}


class Workers(unittest.TestCase):
    def test_what_ends_or_hangs_costs_its_number_alone(self):
        found = work_off(range(8), 2, 0.5, lambda: None, fragile,
                         lambda number, why: {"number": number, "why": why})
        self.assertEqual({record["number"]: record for record in found}, {
            **{n: {"number": n, "careful": False} for n in (0, 4, 5, 6, 7)},
            1: {"number": 1, "why": "ended with 3"}, 2: {"number": 2, "careful": True},
            3: {"number": 3, "why": "took too long"}})

    def test_a_process_apart_gives_its_result_its_error_or_none(self):
        self.assertEqual(apart(5, divmod, 7, 2), (3, 1))
        with self.assertRaises(ZeroDivisionError):
            apart(5, divmod, 7, 0)
        with self.assertRaisesRegex(Lost, "ended with 3"):
            apart(5, os._exit, 3)
        with self.assertRaisesRegex(Lost, "no answer within 0.1 s"):
            apart(0.1, time.sleep, 60)


class Truth(unittest.TestCase):
    def test_what_the_evaluator_has_not(self):
        b = Builder(np.random.default_rng(0), 13, F32)
        x = b.add(np.array([[1.0, 2.0], [3.0, 5.0]], np.float32))
        gelu = b.node("QuickGelu", [x], domain="com.microsoft", made=[(F32, (2, 2))], alpha=1.0)[0]
        cut = b.node("Slice", [x, b.const([-9]), b.const([-9]), b.const([1]), b.const([-1])],
                     made=[(F32, (2, 1))])[0]
        b.case.outputs = [gelu.name, cut.name]
        found = Double(b.case).run()
        np.testing.assert_allclose(found[gelu.name], x_sigmoid(np.array([[1, 2], [3, 5]])), rtol=1e-15)
        np.testing.assert_array_equal(found[cut.name], [[1], [3]])

    def test_small_kernels_are_padded_as_the_text_says(self):
        b = Builder(np.random.default_rng(0), 13, F32)
        x = b.add(np.array([[[1.0, 2.0]]], np.float32))
        y = b.node("ConvTranspose", [x, b.const([[[1.0]]], F32)], made=[(F32, (1, 1, 6))], strides=[3],
                   auto_pad="SAME_UPPER")[0]
        b.case.outputs = [y.name]
        right = np.array([[[1, 0, 0, 2, 0, 0]]], np.float32)
        self.assertEqual(verdict(b.case, right).kind, "equal")
        self.assertEqual(verdict(b.case, right[:, :, ::-1].copy()).kind, "differs")
        self.assertEqual(verdict(b.case, right[:, :, :4]).kind, "differs")


def x_sigmoid(x):
    return x / (1 + np.exp(-x))


if __name__ == "__main__":
    assert Value
    unittest.main()
