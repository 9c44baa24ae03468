#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/program/program.hpp"

namespace tilemesh {
namespace {

constexpr std::uint64_t kConstants = 64;
enum : std::uint32_t { kX, kZero, kGoesOn, kTrips, kCounter, kCarried, kNext, kOther, kY };

ProgramOp call(const char* op, std::uint32_t input, std::uint32_t output) {
  ProgramOp result;
  result.op = op;
  result.inputs = {input};
  result.outputs = {output};
  return result;
}

ProgramOp jump(ProgramOp::Kind kind, std::uint32_t target, std::vector<std::uint32_t> inputs) {
  ProgramOp result;
  result.kind = kind;
  result.target = target;
  result.inputs = std::move(inputs);
  return result;
}

/// carried = x; while (goes_on && ++counter < trips) carried = tanh(relu(carried)); y = carried
Program loop_program() {
  Program program;
  program.name = "loop";
  program.mesh = {1, 1};
  program.dram_workspace_bytes = 256;
  const auto add = [&](const char* name, DType dtype, const Shape& shape, Storage storage) {
    TensorSpec spec;
    spec.shape = shape;
    spec.dtype = dtype;
    spec.mesh = program.mesh;
    program.values.push_back({name, spec, storage});
  };
  using Kind = Storage::Kind;
  add("x", DType::f32, {4}, {Kind::input, 0, 0});
  add("zero", DType::i64, {}, {Kind::constant, 0, 0});
  add("goes_on", DType::boolean, {}, {Kind::input, 1, 0});
  add("trips", DType::i64, {}, {Kind::input, 2, 0});
  add("counter", DType::i64, {}, {Kind::workspace, 0, 0});
  add("carried", DType::f32, {4}, {Kind::workspace, 0, 64});
  add("next", DType::f32, {4}, {Kind::workspace, 0, 128});
  add("other", DType::f32, {4}, {Kind::workspace, 0, 192});
  add("y", DType::f32, {4}, {Kind::output, 0, 0});
  program.inputs = {{"x", kX}, {"goes_on", kGoesOn}, {"trips", kTrips}};
  program.outputs = {{"y", kY}};
  program.constants = {{kZero, 0, 8, 0}};
  ProgramOp repeat = jump(ProgramOp::Kind::repeat, 3, {kCounter, kTrips, kGoesOn});
  repeat.limit = 100;
  program.ops = {call("identity", kZero, kCounter),
                 call("identity", kX, kCarried),
                 jump(ProgramOp::Kind::jump_if_false, 7, {kGoesOn}),
                 call("relu", kCarried, kNext),
                 call("tanh", kNext, kOther),
                 call("identity", kOther, kCarried),
                 repeat,
                 call("identity", kCarried, kY)};
  return program;
}

std::string refusal(const Program& program) {
  try {
    verify(program, kConstants);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "";
}

TEST(VerifyLoops, AcceptsALoop) {
  EXPECT_EQ(refusal(loop_program()), "");
}

TEST(VerifyLoops, AcceptsLoopsInLoops) {
  Program program = loop_program();
  // The inner one has a counter of its own, which the outer one's body sets to zero.
  program.values.push_back(program.values[kCounter]);
  program.dram_workspace_bytes = 320;
  const auto inner = static_cast<std::uint32_t>(program.values.size() - 1);
  program.values[inner].storage.offset = 256;
  ProgramOp repeat = jump(ProgramOp::Kind::repeat, 4, {inner, kTrips, ProgramOp::kAbsent});
  repeat.limit = 5;
  program.ops.insert(program.ops.begin() + 3, call("identity", kZero, inner));
  program.ops.insert(program.ops.begin() + 7, repeat);
  program.ops[2].target = 9;
  ASSERT_EQ(program.ops[8].kind, ProgramOp::Kind::repeat);
  EXPECT_EQ(refusal(program), "");
  program.ops[8].target = 5;
  EXPECT_THAT(refusal(program), ::testing::HasSubstr("cross"));
}

struct Breakage {
  std::string name;
  std::function<void(Program&)> apply;
  std::string message;
};
void PrintTo(const Breakage& breakage, std::ostream* out) {
  *out << breakage.name;
}

class VerifyLoop : public ::testing::TestWithParam<Breakage> {};

TEST_P(VerifyLoop, NamesWhatIsBroken) {
  Program program = loop_program();
  GetParam().apply(program);
  EXPECT_THAT(refusal(program), ::testing::HasSubstr(GetParam().message));
}

const Breakage kBreakages[] = {
    {"goes_forward", [](Program& p) { p.ops[6].target = 7; }, "comes after it"},
    {"no_limit", [](Program& p) { p.ops[6].limit = 0; }, "not positive"},
    {"two_inputs", [](Program& p) { p.ops[6].inputs.pop_back(); }, "wants a counter"},
    {"no_counter", [](Program& p) { p.ops[6].inputs[0] = ProgramOp::kAbsent; }, "wants a counter"},
    {"unknown_value", [](Program& p) { p.ops[6].inputs[1] = 77; }, "names value 77"},
    {"float_counter", [](Program& p) { p.ops[6].inputs[0] = kCarried; }, "one replicated i64"},
    {"long_condition", [](Program& p) { p.ops[6].inputs[2] = kX; }, "one replicated bool"},
    {"constant_counter", [](Program& p) { p.ops[6].inputs[0] = kZero; }, "in a constant"},
    {"input_counter", [](Program& p) { p.ops[6].inputs[0] = kTrips; },
     "only what an output takes over"},
    {"counter_set_in_the_loop", [](Program& p) { p.ops[5] = call("identity", kZero, kCounter); },
     "the counter of the loop"},
    {"counter_overlapped", [](Program& p) { p.values[kNext].storage.offset = 4; },
     "the counter of the loop"},
    {"counter_not_set", [](Program& p) { p.ops[0] = call("identity", kX, kNext); },
     "nothing has written"},
    {"jump_into", [](Program& p) { p.ops[2].target = 5; }, "jumps into a loop"},
    {"jump_out", [](Program& p) { p.ops[4] = jump(ProgramOp::Kind::jump, 7, {}); },
     "jumps out of a loop"},
    // Right in the first iteration; in the second the carried value is gone.
    {"carried_is_overwritten",
     [](Program& p) { p.values[kOther].storage.offset = p.values[kCarried].storage.offset; },
     "another value's on each way"},
    {"carried_is_not_set_again",
     [](Program& p) {
       p.ops[5] = call("identity", kOther, kNext);
       p.values[kNext].storage.offset = p.values[kCarried].storage.offset;
     },
     "another value's on each way"},
};

INSTANTIATE_TEST_SUITE_P(Breakages, VerifyLoop, ::testing::ValuesIn(kBreakages),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tilemesh
