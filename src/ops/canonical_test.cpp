#include <cmath>
#include <limits>
#include <set>

#include "tilemesh/base/error.hpp"
#include "tilemesh/ops/target.hpp"

#include "op_cases.hpp"

// The canonical form of every op's attributes: what all readers of a call rely on.
namespace tilemesh::ops::testing {
namespace {

using Ints = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

OpCall call_of(const Case& c) {
  return make_call(c.op_name(), c.inputs, c.attributes, c.outputs, c.epilogue);
}

/// True if the attributes are taken; they are complete then, and what they lead to is the same
/// whether they were given so or not.
bool has_one_form(OpCall call, const Attributes& attributes) {
  call.attributes = attributes;
  try {
    infer_outputs(call);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return false;
  }
  OpCall again = call;
  infer_outputs(again);
  EXPECT_EQ(again.attributes, call.attributes) << to_string(call);
  EXPECT_EQ(again.outputs, call.outputs) << to_string(call);
  return true;
}

class Canonical : public ::testing::TestWithParam<std::size_t> {
 protected:
  OpCall call_ = call_of(all_cases()[GetParam()]);

  bool takes(std::string_view name, AttributeValue value) {
    Attributes changed = call_.attributes;
    changed.set(name, std::move(value));
    return has_one_form(call_, changed);
  }
};

TEST_P(Canonical, IsAFormOfItsOwn) {
  EXPECT_TRUE(has_one_form(call_, call_.attributes));
  EXPECT_TRUE(has_one_form(call_, all_cases()[GetParam()].attributes));
}

TEST_P(Canonical, HasTheSameNamesWhateverIsGiven) {
  std::set<std::string> names;
  for (const Attributes::Item& item : call_.attributes.items()) {
    names.insert(item.first);
  }
  for (const std::string& name : names) {
    Attributes fewer;
    for (const Attributes::Item& item : call_.attributes.items()) {
      if (item.first != name) fewer.set(item.first, item.second);
    }
    OpCall call = call_;
    call.attributes = fewer;
    try {
      canonicalise(call);
    } catch (const Error& error) {
      // It has to be given, or what else is given wants it.
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      continue;
    }
    EXPECT_TRUE(call.attributes.has(name)) << name;
    EXPECT_EQ(call.attributes.items().size(), names.size()) << name;
  }
}

TEST_P(Canonical, RefusesWhatTheOpDoesntHave) {
  EXPECT_FALSE(takes("no_such_attribute", std::int64_t{1}));
}

TEST_P(Canonical, RefusesAnotherKind) {
  for (const Attributes::Item& item : call_.attributes.items()) {
    const bool is_text = std::holds_alternative<std::string>(item.second);
    EXPECT_FALSE(takes(item.first, is_text ? AttributeValue(std::int64_t{0}) : std::string("x")))
        << item.first;
  }
}

TEST_P(Canonical, RefusesListsOfOtherLengths) {
  for (const Attributes::Item& item : call_.attributes.items()) {
    if (const auto* list = std::get_if<Ints>(&item.second)) {
      takes(item.first, Ints{});  // refused, or what is missing
      Ints longer = *list;
      longer.push_back(1);
      takes(item.first, longer);  // a reduction may have one more
      longer.resize(100, 1);
      EXPECT_FALSE(takes(item.first, longer)) << item.first;
      if (list->size() > 1) takes(item.first, Ints(list->begin(), list->end() - 1));
    }
    if (const auto* list = std::get_if<Numbers>(&item.second)) {
      takes(item.first, Numbers{});
      Numbers longer = *list;
      longer.push_back(1);
      EXPECT_FALSE(takes(item.first, longer)) << item.first;
    }
  }
}

TEST_P(Canonical, KeepsNumbersInTheirRange) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  for (const Attributes::Item& item : call_.attributes.items()) {
    if (const auto* list = std::get_if<Ints>(&item.second)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        for (const std::int64_t number : {kMax, kMin, std::int64_t{0}, std::int64_t{-1}}) {
          Ints changed = *list;
          changed[i] = number;
          takes(item.first, changed);
        }
      }
    }
    if (std::holds_alternative<std::int64_t>(item.second)) {
      for (const std::int64_t number : {kMax, kMin, std::int64_t{0}, std::int64_t{-1}}) {
        takes(item.first, number);
      }
    }
    if (std::holds_alternative<double>(item.second)) {
      EXPECT_FALSE(takes(item.first, std::nan(""))) << item.first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Canonical, ::testing::Range<std::size_t>(0, all_cases().size()));

TEST(CanonicalForm, ASliceWithoutAxesMeansTheFirst) {
  const OpCall call =
      make_call("slice", {random({4, 5, 6})}, {{"starts", Ints{1, 2}}, {"ends", Ints{3, 4}}});
  EXPECT_EQ(call.attributes.integers("axes"), (Ints{0, 1}));
  EXPECT_EQ(call.attributes.integers("steps"), (Ints{1, 1}));
  EXPECT_EQ(call.outputs[0].shape, (Shape{2, 2, 6}));
  EXPECT_NE(infer_error("slice", {random({4})}, {{"starts", Ints{0, 0}}, {"ends", Ints{1, 1}}}),
            "");
  // A dim that is named twice would be checked once and read twice.
  EXPECT_NE(infer_error("slice", {random({4})},
                        {{"starts", Ints{9, 0}}, {"ends", Ints{9, 1}}, {"axes", Ints{0, 0}}}),
            "");
}

TEST(CanonicalForm, OnlyOpsWithAnEpilogueTakeOne) {
  const Expression relu{{{.fn = ScalarFn::relu}}};
  for (const OpDef& op : all_ops()) {
    if (op.max_inputs < 0 || op.name == "map") continue;
    for (const Case& c : all_cases()) {
      if (c.op_name() != op.name || !c.epilogue.empty()) continue;
      OpCall call = call_of(c);
      call.inputs.resize(static_cast<std::size_t>(op.max_inputs),
                         {.dtype = DType::f32, .shape = {}, .layout = {}, .present = false});
      call.epilogue = relu;
      bool taken = true;
      try {
        infer_outputs(call);
      } catch (const Error&) {
        taken = false;
      }
      EXPECT_EQ(taken, op.takes_epilogue) << op.name;
      EXPECT_EQ(reference_target().can_fuse(call, relu.steps[0], nullptr), op.takes_epilogue);
    }
  }
}

TEST(CanonicalForm, RequiredOutputsMustBeWanted) {
  for (const Case& c : all_cases()) {
    OpCall call = call_of(c);
    call.outputs[0].present = false;
    bool taken = true;
    try {
      infer_outputs(call);
    } catch (const Error&) {
      taken = false;
    }
    EXPECT_EQ(taken, call.def->required_outputs == 0) << c.name;
    if (!taken || call.inputs.empty()) continue;
    run_call(call, c.inputs);  // writes nowhere
  }
}

}  // namespace
}  // namespace tilemesh::ops::testing
