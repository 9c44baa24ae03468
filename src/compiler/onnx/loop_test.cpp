#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/onnx/testing.hpp"

/// Loop, Scan, sequences and optionals.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void add_input(onnx::GraphProto& graph, const std::string& name) {
  graph.add_input()->set_name(name);
}
void add_output(onnx::GraphProto& graph, const std::string& name) {
  graph.add_output()->set_name(name);
}

// Carries a and b: a, b = b, a + b + iteration. Gathers a.
onnx::GraphProto fibonacci(bool gathers) {
  onnx::GraphProto body;
  for (const char* name : {"i", "cond", "a", "b"})
    add_input(body, name);
  add_node(body, "Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}}});
  add_node(body, "Add", {"a", "b"}, {"sum"});
  add_node(body, "Add", {"sum", "f"}, {"next"});
  add_node(body, "Identity", {"a"}, {"row"});
  for (const char* name : {"cond", "b", "next"})
    add_output(body, name);
  if (gathers) add_output(body, "row");
  return body;
}

// Outputs a, b and, if it gathers, rows.
Model loop_model(const onnx::GraphProto& body, const Names& outputs) {
  Model model(16);
  model.input("trips", {}, 7);
  model.input("condition", {}, 9);
  model.input("a", {std::int64_t{2}});
  model.input("b", {std::int64_t{2}});
  model.node("Loop", {"trips", "condition", "a", "b"}, outputs, {{"body", body}});
  for (const std::string& name : outputs)
    model.output(name);
  return model;
}

OnnxOptions with_trips(std::int64_t trips) {
  OnnxOptions options;
  options.values["trips"] = make_constant<std::int64_t>(Shape{}, {trips});
  options.values["condition"] = filled(DType::boolean, {}, 1);
  return options;
}

std::vector<std::vector<float>> run_on(const Graph& graph, std::int64_t trips, bool condition) {
  std::vector<std::vector<float>> outputs;
  for (const ConstantData& output :
       interpret(graph, {{"a", floats({2}, {1, 10})},
                         {"b", floats({2}, {1, 20})},
                         {"trips", make_constant<std::int64_t>(Shape{}, {trips})},
                         {"condition", filled(DType::boolean, {}, condition ? 1 : 0)}})) {
    outputs.push_back(read_as<float>(output));
  }
  return outputs;
}

bool has_loop(const Graph& graph) {
  return std::any_of(graph.body.nodes.begin(), graph.body.nodes.end(),
                     [](const GraphNode& node) { return node.kind == GraphNode::Kind::loop; });
}

// a, b after so many iterations, and all a's.
struct Expected {
  std::vector<float> a{1, 10}, b{1, 20}, rows;
};
Expected expected(int trips) {
  Expected state;
  for (int i = 0; i < trips; ++i) {
    state.rows.insert(state.rows.end(), state.a.begin(), state.a.end());
    std::vector<float> next = {state.a[0] + state.b[0] + static_cast<float>(i),
                               state.a[1] + state.b[1] + static_cast<float>(i)};
    state.a = std::exchange(state.b, next);
  }
  return state;
}

TEST(OnnxLoop, UnrollsAFewIterations) {
  for (const int trips : {0, 1, 5}) {
    const Graph graph = loop_model(fibonacci(true), {"x", "y", "rows"}).import(with_trips(trips));
    EXPECT_FALSE(has_loop(graph));
    const Expected wanted = expected(trips);
    EXPECT_THAT(run_on(graph, trips, true), ElementsAre(wanted.a, wanted.b, wanted.rows));
  }
}

TEST(OnnxLoop, LoopsWhereThereAreMany) {
  const int trips = 1000;
  onnx::GraphProto body = fibonacci(true);
  add_node(body, "Cos", {"next"}, {"small"});  // keeps it from growing
  body.mutable_output(2)->set_name("small");
  const Graph graph = loop_model(body, {"x", "y", "rows"}).import(with_trips(trips));
  EXPECT_TRUE(has_loop(graph));
  graph.check();
  float a = 1;
  float b = 1;
  std::vector<float> rows;
  for (int i = 0; i < trips; ++i) {
    rows.push_back(a);
    a = std::exchange(b, std::cos(a + b + static_cast<float>(i)));
  }
  const auto got = run_on(graph, trips, true);
  EXPECT_NEAR(got[0][0], a, 1e-4);
  EXPECT_NEAR(got[1][0], b, 1e-4);
  ASSERT_THAT(got[2], SizeIs(2 * trips));
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_NEAR(got[2][2 * i], rows[i], 1e-4) << i;
}

TEST(OnnxLoop, TakesTripsAndConditionWhenItRuns) {
  const Graph graph = loop_model(fibonacci(false), {"x", "y"}).import();
  EXPECT_TRUE(has_loop(graph));
  graph.check();
  for (const int trips : {0, 1, 7}) {
    const Expected wanted = expected(trips);
    EXPECT_THAT(run_on(graph, trips, true), ElementsAre(wanted.a, wanted.b));
  }
  EXPECT_THAT(run_on(graph, -3, true), ElementsAre(expected(0).a, expected(0).b));
  EXPECT_THAT(run_on(graph, 7, false), ElementsAre(expected(0).a, expected(0).b));
}

TEST(OnnxLoop, EndsWhenItsConditionFails) {
  onnx::GraphProto body = fibonacci(false);
  add_node(body, "ReduceMax", {"next"}, {"largest"}, {{"keepdims", std::int64_t{0}}});
  Model model = loop_model(body, {"x", "y"});
  model.initializer("bound", floats({}, {100}));
  onnx::GraphProto& own = *model.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  add_node(own, "Less", {"largest", "bound"}, {"more"});
  own.mutable_output(0)->set_name("more");
  const Graph graph = model.import(with_trips(50));
  EXPECT_TRUE(has_loop(graph));
  // 10 20 | 20 30 | 30 51 | 51 83 | 83 137: the fourth iteration makes one above 100.
  EXPECT_THAT(run_on(graph, 50, true)[1], ElementsAre(expected(4).b[0], expected(4).b[1]));
  EXPECT_GT(expected(4).b[1], 100);
  EXPECT_LT(expected(3).b[1], 100);
}

TEST(OnnxLoop, CountsWhatItGathersWhereTheConditionEndsIt) {
  Model model = loop_model(fibonacci(true), {"x", "y", "rows"});
  model.initializer("bound", floats({}, {100}));
  onnx::GraphProto& own = *model.graph().mutable_node(0)->mutable_attribute(0)->mutable_g();
  add_node(own, "ReduceMax", {"next"}, {"largest"}, {{"keepdims", std::int64_t{0}}});
  add_node(own, "Less", {"largest", "bound"}, {"more"});
  own.mutable_output(0)->set_name("more");
  const Graph graph = model.import(with_trips(50));
  ASSERT_THAT(graph.outputs, SizeIs(4));
  EXPECT_EQ(graph.outputs[3].name, "rows.count");
  const auto got = interpret(graph, {{"a", floats({2}, {1, 10})}, {"b", floats({2}, {1, 20})}});
  EXPECT_THAT(read_as<std::int64_t>(got[3]), ElementsAre(4));
  const std::vector<float> rows = read_as<float>(got[2]);
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 8), expected(4).rows);
}

TEST(OnnxLoop, SaysWhatIsNotStatic) {
  EXPECT_THAT(error_of([] {
                loop_model(fibonacci(true), {"x", "y", "rows"}).import();
              }),
              HasSubstr("how much it gathers is known only when it runs"));
  onnx::GraphProto body;
  for (const char* name : {"i", "cond", "a", "b"})
    add_input(body, name);
  add_node(body, "Concat", {"a", "b"}, {"longer"}, {{"axis", std::int64_t{0}}});
  for (const char* name : {"cond", "longer", "b"})
    add_output(body, name);
  const Model grows = loop_model(body, {"x", "y"});
  EXPECT_THAT(error_of([&] { grows.import(); }),
              HasSubstr("as f32[2] into its first iteration, and as f32[4] into the next"));
  const Graph graph = grows.import(with_trips(3));
  EXPECT_THAT(run_on(graph, 3, true)[0], ElementsAre(1, 10, 1, 20, 1, 20, 1, 20));
}

Model scan_model(std::int64_t length,
                 const std::vector<std::pair<std::string, AttributeOf>>& more) {
  onnx::GraphProto body;
  add_input(body, "sum");
  add_input(body, "x");
  add_node(body, "Add", {"sum", "x"}, {"next"});
  add_node(body, "Identity", {"next"}, {"row"});
  add_output(body, "next");
  add_output(body, "row");
  Model model(16);
  model.input("start", {std::int64_t{2}});
  model.input("xs", {length, std::int64_t{2}});
  std::vector<std::pair<std::string, AttributeOf>> attributes = more;
  attributes.emplace_back("body", body);
  attributes.emplace_back("num_scan_inputs", std::int64_t{1});
  model.node("Scan", {"start", "xs"}, {"end", "sums"}, attributes);
  model.output("end");
  model.output("sums");
  return model;
}

TEST(OnnxScan, CarriesAndGathers) {
  for (const std::int64_t length : {3, 400}) {
    for (const std::int64_t backward : {0, 1}) {
      const Model model = scan_model(length, {{"scan_input_directions", Integers{backward}},
                                              {"scan_output_directions", Integers{backward}},
                                              {"scan_output_axes", Integers{1}}});
      const Graph graph = model.import();
      EXPECT_EQ(has_loop(graph), length > 100);
      std::vector<float> xs(static_cast<std::size_t>(2 * length));
      for (std::size_t i = 0; i < xs.size(); ++i)
        xs[i] = static_cast<float>(i % 7);
      const auto got =
          interpret(graph, {{"start", floats({2}, {1, 2})}, {"xs", floats({length, 2}, xs)}});
      ASSERT_EQ(got[1].shape, (Shape{2, length}));
      std::vector<float> sum = {1, 2};
      std::vector<float> sums(xs.size());
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t at = backward != 0 ? length - 1 - i : i;
        for (std::int64_t k = 0; k < 2; ++k) {
          sum[static_cast<std::size_t>(k)] += xs[static_cast<std::size_t>(2 * at + k)];
          sums[static_cast<std::size_t>(k * length + at)] = sum[static_cast<std::size_t>(k)];
        }
      }
      EXPECT_EQ(read_as<float>(got[0]), sum);
      EXPECT_EQ(read_as<float>(got[1]), sums);
    }
  }
}

TEST(OnnxSequence, BecomesItsTensors) {
  Model model(17);
  model.input("x", {std::int64_t{2}, std::int64_t{3}});
  model.initializer("one", integer(1));
  model.initializer("last", integer(-1));
  model.node("SplitToSequence", {"x"}, {"columns"}, {{"axis", std::int64_t{1}}});
  model.node("SequenceErase", {"columns", "one"}, {"two"});
  model.node("SequenceAt", {"two", "last"}, {"column"});
  model.node("SequenceInsert", {"two", "column"}, {"three"});
  model.node("SequenceLength", {"three"}, {"length"});
  model.node("ConcatFromSequence", {"three"}, {"y"}, {{"axis", std::int64_t{1}}});
  model.output("y");
  model.output("length");
  model.output("two");
  const Graph graph = model.import();
  ASSERT_THAT(graph.outputs, SizeIs(4));
  EXPECT_EQ(graph.outputs[2].name, "two.0");
  EXPECT_EQ(graph.outputs[3].name, "two.1");
  const auto got = interpret(graph, {{"x", floats({2, 3}, {0, 1, 2, 3, 4, 5})}});
  EXPECT_THAT(read_as<float>(got[0]), ElementsAre(0, 2, 2, 3, 5, 5));
  EXPECT_THAT(read_as<std::int64_t>(got[1]), ElementsAre(3));
  EXPECT_THAT(read_as<float>(got[3]), ElementsAre(2, 5));
}

TEST(OnnxSequence, IsNoTensor) {
  Model model(17);
  model.input("x", {std::int64_t{2}});
  model.node("SequenceConstruct", {"x", "x"}, {"pair"});
  model.node("Relu", {"pair"}, {"y"});
  model.output("y");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("reads a sequence"));
}

TEST(OnnxSequence, IsNoPosition) {
  Model model(17);
  model.input("x", {std::int64_t{2}});
  model.node("SequenceConstruct", {"x", "x"}, {"pair"});
  model.node("SequenceAt", {"pair", "pair"}, {"y"});
  model.node("SequenceInsert", {"pair", "pair"}, {"deep"});
  model.node("ConcatFromSequence", {"deep"}, {"z"}, {{"axis", std::int64_t{0}}});
  model.output("y");
  model.output("z");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("where a tensor is wanted"));
}

TEST(OnnxOptional, IsKnown) {
  Model model(18);
  model.input("x", {std::int64_t{2}});
  model.node("Optional", {"x"}, {"some"});
  model.node("OptionalHasElement", {"some"}, {"has"});
  model.node("OptionalGetElement", {"some"}, {"y"});
  model.node("OptionalHasElement", {}, {"hasnt"});
  for (const char* name : {"has", "y", "hasnt"})
    model.output(name);
  const auto got = interpret(model.import(), {{"x", floats({2}, {4, 5})}});
  EXPECT_THAT(*got[0].bytes, ElementsAre(std::byte{1}));
  EXPECT_THAT(read_as<float>(got[1]), ElementsAre(4, 5));
  EXPECT_THAT(*got[2].bytes, Each(std::byte{0}));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
