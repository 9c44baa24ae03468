#include <gtest/gtest.h>

#include "compiler/interpret.hpp"
#include "compiler/testing.hpp"

namespace tilemesh {
namespace {

using testing::floats;
using Value = ProgramBuilder::Value;

TensorSpec spec(const Shape& shape) {
  TensorSpec s;
  s.shape = shape;
  return s;
}

class StorageTest : public ::testing::Test {
 protected:
  Value state(const std::string& name) { return builder_.input(name, spec({3}), InputKind::state); }
  void output(const std::string& name, Value value, Value alias = {}) {
    builder_.output(name, value, {.alias = alias, .space = Space::dram});
  }

  const Program& lower_graph() {
    graph_ = builder_.build();
    program_ = lower(graph_, pool_, {reference_target(), {1, 1}, true, {}});
    verify(program_, pool_.section().size());
    return program_;
  }

  /// The ops of the program: what is copied and what isn't.
  std::string ops() const {
    std::string text;
    for (const ProgramOp& op : program_.ops)
      text += (text.empty() ? "" : " ") + op.op;
    return text;
  }

  void expect_right_values() {
    const testing::Values inputs = testing::random_inputs(graph_, 3);
    const auto got = testing::execute(program_, pool_.section(), inputs);
    const auto wanted = interpret(graph_, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(testing::difference(got[i], wanted[i], 1e-6), "") << graph_.outputs[i].name;
    }
  }

  Storage storage_of_output(std::size_t i) const {
    return program_.values[program_.outputs[i].value].storage;
  }

  ProgramBuilder builder_{"storage"};
  Graph graph_;
  Program program_;
  ConstantPool pool_;
};

TEST_F(StorageTest, OutputsAreWrittenByTheirProducers) {
  const Value x = builder_.input("x", spec({2, 3}));
  const Value y = builder_.softmax(x, 1);
  output("y", y);
  output("z", builder_.softmax(y, 0));
  lower_graph();
  EXPECT_EQ(ops(), "softmax softmax");
  EXPECT_EQ(program_.dram_workspace_bytes, 0);
  expect_right_values();
}

TEST_F(StorageTest, AViewOfAResultIsTheOutputItself) {
  const Value x = builder_.input("x", spec({2, 3}));
  output("y", builder_.reshape(builder_.softmax(x, 1), {3, 2}));
  lower_graph();
  EXPECT_EQ(ops(), "softmax");
  EXPECT_EQ(program_.dram_workspace_bytes, 0);
  expect_right_values();
}

TEST_F(StorageTest, InputsConstantsViewsAndSecondNamesAreCopied) {
  const Value x = builder_.input("x", spec({2, 3}));
  const Value y = builder_.relu(x);
  output("input", x);
  output("view", builder_.reshape(x, {6}));
  output("constant", builder_.constant(2.5f));
  output("first", y);
  output("second", y);
  lower_graph();
  EXPECT_EQ(std::ranges::count(program_.ops, "identity", &ProgramOp::op), 4);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(storage_of_output(i).kind, Storage::Kind::output);
    EXPECT_EQ(storage_of_output(i).index, i);
  }
  expect_right_values();
}

TEST_F(StorageTest, AStateIsWrittenDirectlyOnceItHasBeenRead) {
  const Value s = state("s");
  const Value x = builder_.softmax(builder_.input("x", spec({3})), 0);
  output("y", builder_.softmax(s, 0));
  output("new", builder_.softmax(builder_.op("cum_sum", {x}, {{"axis", std::int64_t{0}}})[0], 0),
         s);
  lower_graph();
  EXPECT_EQ(ops().find("identity"), std::string::npos) << ops();
  EXPECT_EQ(storage_of_output(1), (Storage{Storage::Kind::input, 0, 0}));
  EXPECT_EQ(program_.outputs[1].alias, 0);
  expect_right_values();
}

TEST_F(StorageTest, AStateThatItsProducerReadsIsWrittenAtTheEnd) {
  const Value s = state("s");
  output("new", builder_.softmax(s, 0), s);
  lower_graph();
  EXPECT_EQ(ops(), "softmax identity");
  expect_right_values();
}

TEST_F(StorageTest, AStateThatIsReadLaterIsWrittenAtTheEnd) {
  const Value s = state("s");
  const Value x = builder_.input("x", spec({3}));
  const Value fresh = builder_.softmax(x, 0);
  const Value late = builder_.softmax(fresh, 0);
  output("new", fresh, s);
  output("y",
         builder_.op("concat", {late, builder_.reshape(s, {3})}, {{"axis", std::int64_t{0}}})[0]);
  lower_graph();
  EXPECT_EQ(ops().substr(ops().size() - 8), "identity");
  expect_right_values();
}

TEST_F(StorageTest, StatesMayChangePlaces) {
  const Value a = state("a");
  const Value b = state("b");
  output("new_a", b, a);
  output("new_b", a, b);
  lower_graph();
  expect_right_values();
}

TEST_F(StorageTest, AStateMayStayAsItIs) {
  const Value s = state("s");
  output("same", s, s);
  output("y", builder_.softmax(s, 0));
  lower_graph();
  EXPECT_EQ(ops(), "softmax");
  expect_right_values();
}

TEST_F(StorageTest, AStateAndAnOutputMayBeOneValue) {
  const Value s = state("s");
  const Value y = builder_.softmax(builder_.input("x", spec({3})), 0);
  output("new", y, s);
  output("y", y);
  output("old", s);
  lower_graph();
  expect_right_values();
}

TEST_F(StorageTest, AStateMayBeSetToAConstant) {
  const Value s = state("s");
  output("old", builder_.softmax(s, 0));
  output("new", builder_.constant(std::vector<float>{1, 2, 3}, {3}), s);
  lower_graph();
  expect_right_values();
}

TEST_F(StorageTest, AnAliasOfAnotherTypeIsRefused) {
  const Value s = state("s");
  output("new", builder_.softmax(builder_.input("x", spec({4})), 0), s);
  try {
    lower_graph();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("can't take over the storage of input \"s\""),
              std::string::npos)
        << error.what();
  }
}

TEST_F(StorageTest, ZeroSizesAndScalarsLieSomewhere) {
  const Value x = builder_.input("x", spec({0, 3}));
  const Value y = builder_.input("y", spec({}));
  output("a", builder_.relu(builder_.reshape(builder_.relu(x), {3, 0})));
  output("b", builder_.tanh(builder_.relu(y)));
  lower_graph();
  expect_right_values();
}

// Both sides of a branch write its output; one side's result is made there, the other is outside.
class BranchTest : public StorageTest {
 protected:
  void build_branch() {
    const Value flag = builder_.input("flag", {.shape = {},
                                               .dtype = DType::boolean,
                                               .placements = {},
                                               .layout = {},
                                               .space = Space::dram,
                                               .mesh = {}});
    const Value x = builder_.input("x", spec({3}));
    const Value before = builder_.softmax(x, 0);
    output("out", before);
    graph_ = builder_.build();
    GraphNode branch;
    branch.kind = GraphNode::Kind::branch;
    branch.inputs = {flag.id};
    branch.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
    GraphNode softmax;
    softmax.def = &get_op("softmax");
    softmax.attributes = {{"axis", std::int64_t{0}}};
    softmax.inputs = {before.id};
    branch.blocks[0]->results = graph_.append(*branch.blocks[0], softmax);
    branch.blocks[1]->results = {before.id};
    GraphNode after = softmax;
    after.inputs = graph_.append(graph_.body, branch);
    graph_.outputs.push_back({"after", graph_.append(graph_.body, after)[0], -1, Space::dram, {}});
    graph_.outputs.push_back({"branch", after.inputs[0], -1, Space::dram, {}});
    program_ = lower(graph_, pool_, {reference_target(), {1, 1}, true, {}});
    verify(program_, pool_.section().size());
  }
};

TEST_F(BranchTest, BothSidesWriteTheOutput) {
  build_branch();
  EXPECT_EQ(ops(), "softmax  softmax  identity softmax");
  for (const std::byte flag : {std::byte{0}, std::byte{1}}) {
    testing::Values inputs = testing::random_inputs(graph_, 3);
    inputs["flag"].bytes = std::make_shared<const std::vector<std::byte>>(1, flag);
    const auto got = testing::execute(program_, pool_.section(), inputs);
    const auto wanted = interpret(graph_, inputs);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(testing::difference(got[i], wanted[i], 1e-6), "");
    }
  }
}

TEST(ConstantPool, KeepsEqualContentOnceAndAligned) {
  ConstantPool pool;
  const ConstantData a = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const ConstantData flat = floats({6}, {1, 2, 3, 4, 5, 6});
  const ConstantData b = floats({1}, {7});
  const auto spec = [](const ConstantData& data, const Layout& layout = {}) {
    return TensorSpec{.shape = data.shape, .dtype = data.dtype, .layout = layout};
  };
  const auto first = pool.add(a, spec(a));
  const auto again = pool.add(flat, spec(flat));
  const auto other = pool.add(b, spec(b));
  const auto blocked = pool.add(a, spec(a, Layout::blocked(1, 4)));
  EXPECT_EQ(first.offset, again.offset);
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(other.offset, 64u);
  EXPECT_EQ(blocked.offset, 128u);
  EXPECT_EQ(blocked.bytes, 2u * 4 * sizeof(float));
  const auto* packed =
      reinterpret_cast<const float*>(pool.section().subspan(blocked.offset).data());
  EXPECT_EQ(std::vector<float>(packed, packed + 8), (std::vector<float>{1, 2, 3, 0, 4, 5, 6, 0}));
}

TEST(ConstantPool, StoresOneShardForEachPart) {
  ConstantPool pool;
  const ConstantData a = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto entry = pool.add(
      a,
      {.shape = a.shape, .dtype = a.dtype, .placements = {replicate(), shard(0)}, .mesh = {3, 2}});
  EXPECT_EQ(entry.bytes, 2u * 4 * sizeof(float));
  const auto* stored = reinterpret_cast<const float*>(pool.section().data());
  EXPECT_EQ(std::vector<float>(stored, stored + 8), (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}));
}

}  // namespace
}  // namespace tilemesh
