#include "attribute_form.hpp"

#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::ops {
namespace {

using Ints = std::vector<std::int64_t>;

OpCall call_with(Attributes attributes) {
  OpCall call;
  call.def = &get_op("reshape");
  call.attributes = std::move(attributes);
  return call;
}

/// The message that `name_them` fails with on these attributes; empty if it doesn't.
template <class NameThem>
std::string refusal(const Attributes& attributes, const NameThem& name_them) {
  const OpCall call = call_with(attributes);
  AttributeForm form(call);
  try {
    name_them(form);
    form.take();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(AttributeForm, FillsInWhatIsMissing) {
  const OpCall call = call_with({{"axis", std::int64_t{-1}}, {"pads", Ints{}}});
  AttributeForm form(call);
  EXPECT_EQ(form.axis("axis", 3), 2);
  EXPECT_EQ(form.integers("pads", 2, {.fallback = 0, .min = 0}), (Ints{0, 0}));
  EXPECT_EQ(form.axes("axes", 2), (Ints{0, 1}));
  EXPECT_EQ(form.choice("mode", {"DCR", "CRD"}), "DCR");
  EXPECT_TRUE(form.flag("keepdims", true));
  EXPECT_EQ(form.number("alpha", 0.5), 0.5);
  EXPECT_EQ(form.dtype("to", DType::f16), DType::f16);
  const Attributes expected = {{"axis", std::int64_t{2}},
                               {"pads", Ints{0, 0}},
                               {"axes", Ints{0, 1}},
                               {"mode", std::string("DCR")},
                               {"keepdims", std::int64_t{1}},
                               {"alpha", 0.5},
                               {"to", static_cast<std::int64_t>(DType::f16)}};
  EXPECT_EQ(form.take(), expected);
}

TEST(AttributeForm, RefusesWhatIsOutOfRangeMissingOrUnknown) {
  const auto axes = [](AttributeForm& form) {
    form.axes("axes", 2);
  };
  EXPECT_NE(refusal({{"axes", Ints{0, -2}}}, axes).find("names dim 0 twice"), std::string::npos);
  EXPECT_NE(refusal({{"axes", Ints{2}}}, axes).find("axes 2 is outside [-2,2)"), std::string::npos);
  EXPECT_NE(refusal({{"order", Ints{1}}}, axes).find("has no attribute \"order\"; it has axes"),
            std::string::npos);
  const auto group = [](AttributeForm& form) {
    form.integer("group", {.min = 1, .max = 9});
  };
  EXPECT_NE(refusal({}, group).find("\"group\" is missing"), std::string::npos);
  EXPECT_NE(refusal({{"group", std::int64_t{0}}}, group).find("wants 1 to 9, got 0"),
            std::string::npos);
  EXPECT_NE(refusal({{"group", 1.0}}, group).find("wants an integer, got a number"),
            std::string::npos);
  const auto strides = [](AttributeForm& form) {
    form.integers("strides", 2, {.min = 1});
  };
  EXPECT_NE(refusal({{"strides", Ints{1}}}, strides).find("wants 2 numbers, got 1"),
            std::string::npos);
  EXPECT_NE(refusal({{"strides", Ints{}}}, strides).find("wants 2 numbers, got 0"),
            std::string::npos);
}

}  // namespace
}  // namespace tilemesh::ops
