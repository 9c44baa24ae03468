#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/testing.hpp"

/// Broken and malicious models: an Error, whatever is wrong.
namespace tilemesh::onnx_importer::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Small, with a bit of everything: an initializer, attributes of many types, a branch, folding.
Model rich_model() {
  Model model(13);
  model.input("x", {std::int64_t{1}, std::int64_t{1}, std::int64_t{4}, std::int64_t{4}});
  model.input("c", {}, 9);
  model.initializer("w", filled(DType::f32, {1, 1, 3, 3}, 0.5));
  model.initializer("s", integers({1, -1}));
  model.node("Conv", {"x", "w"}, {"a"}, {{"pads", Integers{1, 1, 1, 1}}, {"auto_pad", "NOTSET"}});
  model.node("LeakyRelu", {"a"}, {"b"}, {{"alpha", 0.1F}});
  model.node("Constant", {}, {"k"}, {{"value", floats({1}, {2})}});
  model.node("Mul", {"b", "k"}, {"d"});
  onnx::GraphProto then_side;
  add_node(then_side, "Reshape", {"d", "s"}, {"e"});
  then_side.add_output()->set_name("e");
  onnx::GraphProto else_side;
  add_node(else_side, "Flatten", {"x"}, {"f"}, {{"axis", std::int64_t{1}}});
  else_side.add_output()->set_name("f");
  model.node("If", {"c"}, {"y"}, {{"then_branch", then_side}, {"else_branch", else_side}});
  model.output("y");
  return model;
}

// Only an Error may come out.
void try_import(const std::string& bytes) {
  try {
    import_onnx_bytes(bytes, {}).check();
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
  }
}

TEST(OnnxHostile, TheRichModelIsFine) {
  EXPECT_EQ(error_of([] { rich_model().import(); }), "none");
}

TEST(OnnxHostile, TruncatedModels) {
  const std::string bytes = rich_model().bytes();
  for (std::size_t length = 0; length < bytes.size(); ++length)
    try_import(bytes.substr(0, length));
}

TEST(OnnxHostile, FlippedBytes) {
  const std::string bytes = rich_model().bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x02, 0x08, 0x80, 0xff}) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ mask);
      try_import(broken);
    }
  }
}

Model relu_model() {
  Model model(13);
  model.input("x", {std::int64_t{2}});
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
  return model;
}

TEST(OnnxHostile, MissingNames) {
  Model model = relu_model();
  model.graph().mutable_node(0)->set_input(0, "nowhere");
  EXPECT_THAT(error_of([&] { model.import(); }),
              AllOf(HasSubstr("invalid_file"), HasSubstr("Relu \"y\" reads \"nowhere\"")));
  model = relu_model();
  model.graph().mutable_node(0)->clear_input();
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("Relu \"y\""));
  model = relu_model();
  model.output("never made");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("output \"never made\""));
}

TEST(OnnxHostile, NamesDefinedTwice) {
  Model model = relu_model();
  model.node("Neg", {"x"}, {"y"});
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("\"y\" is defined twice"));
  model = relu_model();
  model.input("x", {std::int64_t{2}});
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("\"x\" is defined twice"));
  model = relu_model();
  model.initializer("w", floats({1}, {1}));
  model.initializer("w", floats({1}, {1}));
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("two initializers \"w\""));
}

TEST(OnnxHostile, AttributesOfAWrongType) {
  Model model(13);
  model.input("x", {std::int64_t{2}, std::int64_t{2}});
  model.node("Softmax", {"x"}, {"y"}, {{"axis", "one"}});
  model.output("y");
  EXPECT_THAT(
      error_of([&] { model.import(); }),
      AllOf(HasSubstr("invalid_file"), HasSubstr("\"axis\" has the type STRING, INT is wanted")));
  model.graph().mutable_node(0)->clear_attribute();
  set(*model.graph().mutable_node(0), "axis", std::int64_t{1} << 40);
  EXPECT_THAT(error_of([&] { model.import(); }),
              HasSubstr("axis 1099511627776 is outside [-2, 1]"));
}

TEST(OnnxHostile, TooManyInputsAndOutputs) {
  Model model = relu_model();
  model.graph().mutable_node(0)->add_input("x");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("Relu \"y\""));
  model = relu_model();
  model.graph().mutable_node(0)->add_output("z");
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("Relu \"y\""));
}

// A model whose node wants `bytes` for its constant.
std::string error_of_tensor(const onnx::TensorProto& tensor) {
  Model model = relu_model();
  *model.graph().add_initializer() = tensor;
  model.graph().mutable_initializer(0)->set_name("w");
  model.graph().mutable_node(0)->set_input(0, "w");
  return error_of([&] { model.import(); });
}

TEST(OnnxHostile, TensorsWhoseSizesDisagree) {
  onnx::TensorProto tensor = tensor_proto("w", floats({2}, {1, 2}));
  tensor.set_dims(0, 3);
  EXPECT_THAT(error_of_tensor(tensor),
              HasSubstr("\"w\" holds 8 bytes, its shape and type want 12"));
  tensor.set_dims(0, -1);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("invalid_file"));
  tensor.set_dims(0, std::int64_t{1} << 62);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("invalid_file"));
  tensor.add_dims(std::int64_t{1} << 62);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("invalid_file"));
  tensor = tensor_proto("w", floats({2}, {1, 2}));
  tensor.clear_raw_data();
  tensor.add_float_data(1);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("holds 1 values"));
  tensor.set_data_type(77);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("there is no element type 77"));
  tensor.set_data_type(14);
  EXPECT_THAT(error_of_tensor(tensor), HasSubstr("unsupported"));
}

TEST(OnnxHostile, SizesBeyondReason) {
  const auto fails = [](const std::string& op, const std::vector<ConstantData>& constants,
                        const std::vector<std::pair<std::string, AttributeOf>>& attributes = {}) {
    return error_of([&] { one_node(13, op, {{2, 2}}, constants, attributes).import(); });
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_NE(fails("Expand", {integers({kHuge, kHuge, 1, 1})}), "none");
  EXPECT_NE(fails("Tile", {integers({kHuge, kHuge})}), "none");
  EXPECT_NE(fails("Pad", {integers({kHuge, kHuge, kHuge, kHuge})}), "none");
  EXPECT_NE(fails("Reshape", {integers({kHuge, kHuge, 16})}), "none");
  EXPECT_NE(fails("Unsqueeze", {integers(Integers(40, 0))}), "none");
  EXPECT_NE(fails("Resize", {ConstantData{}, floats({2}, {1e30F, 1})}), "none");
  EXPECT_NE(fails("Split", {integers({kHuge, kHuge})}), "none");
  EXPECT_NE(fails("Transpose", {}, {{"perm", Integers{0, 0}}}), "none");
  EXPECT_NE(fails("OneHot", {integers({kHuge}), floats({2}, {0, 1})}), "none");
  EXPECT_NE(fails("EyeLike", {}, {{"k", kHuge}, {"dtype", std::int64_t{99}}}), "none");
}

TEST(OnnxHostile, InputsBeyondReason) {
  EXPECT_THAT(error_of([] { one_node(13, "Neg", {{std::int64_t{7} << 60}}, {}).import(); }),
              HasSubstr("has more than 1099511627776 elements"));
  EXPECT_THAT(error_of([] {
                one_node(13, "Neg", {{0, std::int64_t{1} << 41}}, {}).import();
              }),
              HasSubstr("has more than 1099511627776 elements"));
}

TEST(OnnxHostile, RangesWithoutEnd) {
  const auto range = [](double start, double limit, double delta) {
    Model model(13);
    model.initializer("a", floats({}, {static_cast<float>(start)}));
    model.initializer("b", floats({}, {static_cast<float>(limit)}));
    model.initializer("c", floats({}, {static_cast<float>(delta)}));
    model.node("Range", {"a", "b", "c"}, {"y"});
    model.output("y");
    return error_of([&] { model.import(); });
  };
  EXPECT_EQ(range(0, 10, 3), "none");
  EXPECT_THAT(range(0, 1, 0), HasSubstr("leads nowhere"));
  EXPECT_THAT(range(0, 1e30, 1), HasSubstr("elements"));
  EXPECT_NE(range(0, std::numeric_limits<double>::infinity(), 1), "none");
  EXPECT_NE(range(0, std::nan(""), 1), "none");
}

TEST(OnnxHostile, DeepNestsOfBranches) {
  onnx::GraphProto graph;
  add_node(graph, "Neg", {"x"}, {"deep"});
  graph.add_output()->set_name("deep");
  for (int i = 0; i < 200; ++i) {
    onnx::GraphProto outer;
    const std::string name = "d" + std::to_string(i);
    add_node(outer, "If", {"c"}, {name},
             {{"then_branch", graph}, {"else_branch", onnx::GraphProto()}});
    outer.add_output()->set_name(name);
    graph = outer;
  }
  Model model(13);
  model.input("x", {std::int64_t{2}});
  model.input("c", {}, 9);
  *model.graph().mutable_node() = graph.node();
  *model.graph().mutable_output() = graph.output();
  EXPECT_THAT(error_of([&] { model.import(); }), HasSubstr("not an ONNX model, or damaged"));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
