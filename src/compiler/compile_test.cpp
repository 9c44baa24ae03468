#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

using Value = ProgramBuilder::Value;

TensorSpec spec(const Shape& shape) {
  TensorSpec s;
  s.shape = shape;
  return s;
}

Graph small_graph(const std::string& name) {
  ProgramBuilder builder(name);
  const Value x = builder.input("x", spec({4, 3}));
  const Value w = builder.input("w", spec({3, 2}), InputKind::parameter);
  const Value s = builder.input("s", spec({4, 2}), InputKind::activation);
  const Value y = builder.add(builder.matmul(x, w), s);
  builder.output("y", y);
  builder.output("z", builder.softmax(y, 1));
  return builder.build();
}

std::string message_of(const CompileOptions& options, std::vector<Graph> graphs, ErrorCode code) {
  try {
    compile_for(std::move(graphs), options, reference_target());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Compile, GivesAProgramForEachGraphAndSharesConstants) {
  ProgramBuilder a("a");
  const std::vector<float> values(64, 2.0f);
  a.output("out", a.op("max_pool", {a.constant(values, {1, 1, 8, 8})},
                       {{"kernel", std::vector<std::int64_t>{3, 3}}})[0]);
  ProgramBuilder b("b");
  const Value x = b.input("x", spec({8, 8}));
  b.output("out", b.matmul(x, b.constant(values, {8, 8})));
  ProgramBuilder c("c");
  c.output("out", c.matmul(c.input("x", spec({4, 8})), c.constant(values, {8, 8})));
  const Binary binary = compile_for({a.build(), b.build(), c.build()}, {}, reference_target());
  EXPECT_EQ(binary.program_names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(binary.programs()[1].constants[0].offset, binary.programs()[2].constants[0].offset);
  EXPECT_EQ(binary.target(), reference_target().info());
}

TEST(Compile, OptionsSetSpacesShardsAndStates) {
  CompileOptions options;
  options.mesh = {1, 2};
  options.spaces = {{"x", Space::host}, {"z", Space::l1}};
  options.states = {{"s", "y"}};
  const Binary binary = compile_for({small_graph("main")}, options, reference_target());
  const Program& program = binary.programs()[0];
  EXPECT_EQ(program.input_spec(0).space, Space::host);
  EXPECT_EQ(program.output_spec(1).space, Space::l1);
  EXPECT_EQ(program.inputs[2].kind, InputKind::state);
  EXPECT_EQ(program.outputs[0].alias, 2);

  options.states.clear();
  options.shards = {{"x", 0}, {"s", 0}};
  const Binary cut = compile_for({small_graph("main")}, options, reference_target());
  EXPECT_EQ(cut.programs()[0].input_spec(0).shard_shape(), (Shape{2, 3}));
  EXPECT_EQ(cut.programs()[0].output_spec(1).placements, (Placements{replicate(), shard(0)}));
}

TEST(Compile, ProgressRisesToOne) {
  CompileOptions options;
  double last = 0;
  options.progress = [&](std::string_view, double done) {
    EXPECT_GE(done, last);
    last = done;
  };
  compile_for({small_graph("a"), small_graph("b")}, options, reference_target());
  EXPECT_EQ(last, 1);
}

TEST(Compile, NamesWhatIsWrong) {
  CompileOptions options;
  EXPECT_NE(message_of(options, {}, ErrorCode::invalid_argument).find("no graph"),
            std::string::npos);
  EXPECT_NE(message_of(options, {small_graph("a"), small_graph("a")}, ErrorCode::invalid_argument)
                .find("two programs are named \"a\""),
            std::string::npos);
  options.spaces = {{"q", Space::l1}};
  EXPECT_NE(message_of(options, {small_graph("a")}, ErrorCode::not_found)
                .find("no input or output \"q\": there are s, w, x, y, z"),
            std::string::npos);
  options = {};
  options.shards = {{"x", 2}};
  EXPECT_NE(message_of(options, {small_graph("a")}, ErrorCode::invalid_argument)
                .find("\"x\" of shape [4,3] has no dim 2"),
            std::string::npos);
  options = {};
  options.states = {{"s", "nothing"}};
  EXPECT_NE(message_of(options, {small_graph("a")}, ErrorCode::not_found).find("no output"),
            std::string::npos);
}

TEST(Compile, AParameterTakesTheLayoutOfItsReader) {
  const Binary binary = compile_for({small_graph("main")}, {}, testing::blocked_target());
  const Program& program = binary.programs()[0];
  EXPECT_FALSE(program.input_spec(1).layout.is_rows());
  EXPECT_TRUE(program.input_spec(0).layout.is_rows());
  EXPECT_EQ(std::ranges::count(program.ops, "convert", &ProgramOp::op), 0);
  const testing::Values inputs = testing::random_inputs(small_graph("main"), 9);
  const auto got = testing::execute(program, binary.constants(), inputs);
  const auto wanted = interpret(small_graph("main"), inputs);
  EXPECT_EQ(testing::difference(got[1], wanted[1], 1e-5), "");
}

TEST(Compile, ConvsKeepTheirLayoutFromOpToOp) {
  ProgramBuilder builder("chain");
  Value x = builder.input("x", spec({1, 3, 6, 6}));
  const auto conv = [&](Value v, std::int64_t in, std::int64_t out) {
    const std::vector<float> weights(static_cast<std::size_t>(in * out), 0.5f);
    return builder.op("conv", {v, builder.constant(weights, {out, in, 1, 1})})[0];
  };
  const Value a = builder.relu(conv(x, 3, 6));
  const Value b = conv(a, 6, 6);
  const Value c = builder.op("max_pool", {builder.mul(builder.add(a, b), builder.sigmoid(b))},
                             {{"kernel", std::vector<std::int64_t>{2, 2}}})[0];
  builder.output("out", conv(c, 6, 5));
  const Graph graph = builder.build();
  const Binary binary = compile_for({graph}, {}, testing::blocked_target());
  const Program& program = binary.programs()[0];
  // Into the blocked layout at the start and out of it at the end.
  EXPECT_EQ(std::ranges::count(program.ops, "convert", &ProgramOp::op), 2);
  const testing::Values inputs = testing::random_inputs(graph, 4);
  const auto got = testing::execute(program, binary.constants(), inputs);
  EXPECT_EQ(testing::difference(got[0], interpret(graph, inputs)[0], 1e-4), "");
}

TEST(Compile, TransposesAroundAConvMayVanish) {
  ProgramBuilder builder("nhwc");
  const Value x = builder.input("x", spec({1, 4, 5, 6}));
  const std::vector<float> weights(36, 0.5f);
  const Value y = builder.op(
      "conv", {builder.transpose(x, {0, 3, 1, 2}), builder.constant(weights, {6, 6, 1, 1})})[0];
  builder.output("out", builder.transpose(y, {0, 2, 3, 1}));
  const Graph graph = builder.build();
  const Binary binary = compile_for({graph}, {}, testing::channels_last_target());
  const Program& program = binary.programs()[0];
  EXPECT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(program.dram_workspace_bytes, 0);
  const testing::Values inputs = testing::random_inputs(graph, 4);
  const auto got = testing::execute(program, binary.constants(), inputs);
  EXPECT_EQ(testing::difference(got[0], interpret(graph, inputs)[0], 1e-5), "");
}

TEST(Compile, APinnedInputLayoutIsKept) {
  ProgramBuilder builder("pinned");
  TensorSpec blocked = spec({1, 5, 2, 2});
  blocked.layout = Layout::blocked(1, 4);
  builder.output("out", builder.softmax(builder.input("x", blocked), 1));
  const Graph graph = builder.build();
  const Binary binary = compile_for({graph}, {}, reference_target());
  EXPECT_EQ(binary.programs()[0].input_spec(0).layout, Layout::blocked(1, 4));
  const testing::Values inputs = testing::random_inputs(graph, 4);
  const auto got = testing::execute(binary.programs()[0], binary.constants(), inputs);
  EXPECT_EQ(testing::difference(got[0], interpret(graph, inputs)[0], 1e-6), "");
}

TEST(ProgramBuilder, ChecksEveryCallAtOnce) {
  ProgramBuilder builder("wrong");
  const Value x = builder.input("x", spec({2, 3}));
  EXPECT_THROW(builder.matmul(x, x), Error);
  EXPECT_THROW(builder.op("no_such_op", {x}), Error);
  EXPECT_THROW(builder.input("x", spec({1})), Error);
  EXPECT_THROW(builder.input("huge", spec({std::int64_t{1} << 41})), Error);
  EXPECT_THROW(builder.relu({static_cast<GraphValueId>(99)}), Error);
  EXPECT_THROW(builder.constant(std::vector<float>{1, 2}, {3}), Error);
  EXPECT_THROW(builder.build(), Error);
  builder.output("y", x);
  EXPECT_THROW(builder.output("y", x), Error);
  EXPECT_THROW(builder.output("z", x, {.alias = builder.relu(x), .space = Space::dram}), Error);
  EXPECT_EQ(builder.shape(builder.transpose(x, {1, 0})), (Shape{3, 2}));
  EXPECT_EQ(builder.build().outputs.size(), 1u);
}

TEST(Graph, CheckFindsBrokenGraphs) {
  const Graph good = small_graph("main");
  good.check();
  Graph graph = good;
  std::swap(graph.body.nodes[0], graph.body.nodes[1]);
  EXPECT_THROW(graph.check(), Error);
  graph = good;
  graph.body.nodes[1].inputs[0] = static_cast<GraphValueId>(77);
  EXPECT_THROW(graph.check(), Error);
  graph = good;
  graph[graph.outputs[0].value].type.shape = {9};
  EXPECT_THROW(graph.check(), Error);
  graph = good;
  graph.body.nodes.push_back(graph.body.nodes[0]);
  EXPECT_THROW(graph.check(), Error);
}

TEST(Graph, PrintsOneLineANode) {
  EXPECT_EQ(to_string(small_graph("main")),
            "graph main\n"
            "input %0 = x : f32[4,3]\n"
            "input %1 = w : f32[3,2]\n"
            "input %2 = s : f32[4,2]\n"
            "%3 = matmul(%0, %1) {transpose_a=0, transpose_b=0} : f32[4,2]  // matmul_0\n"
            "%4 = add(%3, %2) : f32[4,2]  // add_1\n"
            "%5 = softmax(%4) {axis=1} : f32[4,2]  // softmax_2\n"
            "output y = %4 : f32[4,2]\n"
            "output z = %5 : f32[4,2]\n");
}

}  // namespace
}  // namespace tilemesh
