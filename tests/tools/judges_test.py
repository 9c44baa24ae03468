"""Shows the scripts that judge right and wrong results, and wants them told apart."""

import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import bench  # noqa: E402
import check_node_tests  # noqa: E402
import models  # noqa: E402
import oracle  # noqa: E402
import quantized_oracle  # noqa: E402
import test_results  # noqa: E402


class Difference(unittest.TestCase):
    def wrong(self, got: np.ndarray, want: np.ndarray) -> str:
        return oracle.difference(got, want)[1]

    def test_equal(self) -> None:
        special = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
        self.assertEqual(self.wrong(special, special.copy()), "")
        self.assertEqual(self.wrong(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)), "")

    def test_tolerances(self) -> None:
        want = np.array([1000.0, 1e-7], np.float32)
        self.assertEqual(self.wrong(want + np.array([0.9, 9e-6], np.float32), want), "")
        self.assertEqual(self.wrong(want + np.array([1.1, 0], np.float32), want),
                         "1 of 2 elements differ")
        self.assertEqual(self.wrong(want + np.array([0, 2e-5], np.float32), want),
                         "1 of 2 elements differ")

    def test_special_values_differ_from_numbers(self) -> None:
        one = np.ones(1, np.float32)
        for value in (np.nan, np.inf):
            self.assertTrue(self.wrong(one * value, one), value)
            self.assertTrue(self.wrong(one, one * value), value)
        self.assertTrue(self.wrong(-np.inf * one, np.inf * one))

    def test_shape_and_dtype(self) -> None:
        want = np.ones((1, 2), np.float32)
        self.assertIn("not float32(1, 2)", self.wrong(want[0], want))
        self.assertIn("float64", self.wrong(want.astype(np.float64), want))


class TestResults(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "ctest.xml"

    def test_skipped_counts_as_neither(self) -> None:
        self.path.write_text('<testsuite tests="9" failures="2" skipped="3" disabled="1"/>')
        self.assertEqual(test_results.counts(str(self.path)), (3, 2))

    def test_failures_are_named_with_their_last_lines(self) -> None:
        lines = "\n".join(f"line {i}" for i in range(50))
        self.path.write_text(
            '<testsuite tests="3" failures="2">'
            '<testcase name="good" status="run"><system-out>fine</system-out></testcase>'
            '<testcase name="silent" status="fail" time="1.5"><failure/></testcase>'
            f'<testcase name="bad" status="fail" time="0.2"><system-out>{lines}</system-out>'
            "</testcase></testsuite>")
        silent, bad = test_results.failures(str(self.path))
        self.assertEqual(silent, ("silent after 1.5 s", ""))
        self.assertEqual(bad[0], "bad after 0.2 s")
        self.assertEqual(bad[1].splitlines(), [f"line {i}" for i in range(10, 50)])


class NodeTests(unittest.TestCase):
    def test_complaints(self) -> None:
        good = [{"name": "a", "status": "passed"},
                {"name": "b", "status": "unsupported", "reason": "no such op"}]
        self.assertEqual(check_node_tests.complaints(good, 1, []), [])
        self.assertEqual(len(check_node_tests.complaints(good, 2, [])), 1)
        for bad in ({"name": "c", "status": "unsupported", "reason": ""},
                    {"name": "c", "status": "differed", "max_error": 1.0},
                    {"name": "c", "status": "failed", "reason": "crash"}):
            self.assertEqual(len(check_node_tests.complaints([*good, bad], 1, [])), 1, bad)
        wrong = {"name": "c", "status": "differed", "max_error": 1.0}
        self.assertEqual(check_node_tests.complaints([*good, wrong], 1, ["c"]), [])


class Quantised(unittest.TestCase):
    def test_integers_are_the_same(self) -> None:
        want = np.arange(200, dtype=np.uint8)
        moved = want.copy()
        moved[7] += 1
        self.assertEqual(quantized_oracle.fault("QLinearAdd", want.copy(), want), "")
        self.assertEqual(quantized_oracle.fault("QLinearAdd", moved, want),
                         "1 of 200 differ, by up to 1")
        self.assertEqual(quantized_oracle.fault("QLinearSigmoid", moved, want), "")
        moved[8] += 2
        self.assertTrue(quantized_oracle.fault("QLinearSigmoid", moved, want))
        self.assertTrue(quantized_oracle.fault("QLinearAdd", want.astype(np.int8), want))

    def test_floats_are_near(self) -> None:
        want = np.array([1.0, 1e-6], np.float32)
        self.assertEqual(quantized_oracle.fault("Mul", want * np.float32(1 + 5e-6), want), "")
        self.assertTrue(quantized_oracle.fault("Mul", want * np.float32(1 + 5e-5), want))
        self.assertTrue(quantized_oracle.fault("Mul", want * np.float32(np.nan), want))

    def test_distance(self) -> None:
        want = {"y": np.array([3.0, 4.0], np.float32)}
        self.assertEqual(quantized_oracle.distance(want, want), 0)
        self.assertAlmostEqual(quantized_oracle.distance({"y": want["y"] * 1.1}, want), 0.1, 6)
        for bad in (want["y"] * np.float32(np.nan), want["y"][:1], want["y"].astype(np.float64)):
            self.assertEqual(quantized_oracle.distance({"y": bad}, want), float("inf"))

    def test_nodes_read_what_they_are_given(self) -> None:
        node = onnx.helper.make_node
        graph = onnx.helper.make_graph(
            [node("Neg", ["x"], ["a"]), node("Abs", ["a"], ["y"])], "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])])
        model = onnx.helper.make_model(graph, ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 17)])
        x = np.array([1.0, -2.0], np.float32)
        values = quantized_oracle.all_values(model, {"x": x})
        values["a"] = np.array([5.0, -6.0], np.float32)  # not what Neg gives
        cut, given, made = quantized_oracle.cut_apart(model, values)
        got = quantized_oracle.outputs(cut, given)
        results = {name: got[output].tolist() for output, (_, name) in made.items()}
        self.assertEqual(results, {"a": [-1.0, 2.0], "y": [5.0, 6.0]})


class Inputs(unittest.TestCase):
    def test_seeded(self) -> None:
        first, again, other = (models.VAD.make_inputs(seed) for seed in (1, 1, 2))
        self.assertEqual(first["input"].tobytes(), again["input"].tobytes())
        self.assertNotEqual(first["input"].tobytes(), other["input"].tobytes())
        self.assertEqual((first["sr"].shape, first["sr"].dtype), ((), np.int64))


class Turns(unittest.TestCase):
    def test_median_of_each_side(self) -> None:
        our, rival = iter([3.0, 1.0, 2.0]), iter([5.0, 40.0, 60.0, 50.0])  # the first sizes a round
        self.assertEqual(bench.in_turns(lambda _: next(our), lambda _: next(rival), rounds=3),
                         (2.0, 50.0))


if __name__ == "__main__":
    unittest.main()
