#include "fixture.hpp"

namespace tilemesh {
namespace {

class ProgramConformance : public DeviceConformance {
 protected:
  static constexpr std::int64_t kCount = 5;

  static OperandType floats(std::int64_t count = kCount) {
    return {.dtype = DType::f32, .shape = Shape({count}), .layout = {}};
  }
  static DeviceStep call(std::string_view op, std::vector<OperandType> inputs,
                         std::vector<StepOperand> operands, Attributes attributes = {}) {
    DeviceStep step;
    step.call.def = &get_op(op);
    step.call.attributes = std::move(attributes);
    step.call.inputs = std::move(inputs);
    infer_outputs(step.call);
    step.operands = std::move(operands);
    step.name = "op 3 \"" + std::string(op) + "\"";
    return step;
  }
  static DeviceStep add(StepOperand a, StepOperand b, StepOperand sum) {
    return call("add", {floats(), floats()}, {a, b, sum});
  }
  static DeviceStep jump(DeviceStep::Kind kind, int target, std::vector<StepOperand> condition) {
    DeviceStep step;
    step.kind = kind;
    step.target = target;
    step.operands = std::move(condition);
    return step;
  }

  std::unique_ptr<DeviceQueue> queue_ = device().create_queue();
};
INSTANTIATE_TEST_SUITE_P(Backends, ProgramConformance, testing::ValuesIn(variants()), variant_name);

TEST_P(ProgramConformance, RunsStepsOnWhatItsBasesAreBoundTo) {
  // base 2 = base 0 + base 1, then base 2 += a fixed operand
  const StepOperand fixed = {.base = StepOperand::kFixed, .offset = 256, .space = Space::l1};
  const std::vector<DeviceStep> steps = {add({.base = 0}, {.base = 1, .offset = 20}, {.base = 2}),
                                         add({.base = 2}, fixed, {.base = 2})};
  const auto program = device().prepare(steps);
  write(*queue_, std::vector<float>{1, 2, 3, 4, 5}, {Space::dram, 0});
  write(*queue_, std::vector<float>{0, 0, 0, 0, 0, 10, 20, 30, 40, 50}, {Space::dram, 64});
  write(*queue_, std::vector<float>{.5F, .5F, .5F, .5F, .5F}, {Space::l1, 256});
  const std::vector<float> expected = {11.5F, 22.5F, 33.5F, 44.5F, 55.5F};
  for (const std::int64_t target : {128, 512, 128, 1024}) {  // bases move between launches
    const std::vector<DeviceAddress> bases = {
        {Space::dram, 0}, {Space::dram, 64}, {Space::dram, target}};
    enqueue(*queue_, LaunchCommand{program, bases}).wait();
    EXPECT_EQ(read<float>(*queue_, {Space::dram, target}, 5), expected);
  }
  EXPECT_EQ(program->implementations().size(), 2U);
  EXPECT_GE(program->scratch_bytes(), 0);
}

TEST_P(ProgramConformance, RunsInlineOnAnIdleDeviceAndNotOnABusyOne) {
  const auto program = device().prepare(std::vector{add({.base = 0}, {.base = 0}, {.base = 1})});
  const std::vector<DeviceAddress> bases = {{Space::dram, 0}, {Space::dram, 64}};
  for (int round = 1; round < 100; ++round) {
    const auto x = static_cast<float>(round);
    write(*queue_, std::vector<float>(5, x), {Space::dram, 0}).wait();
    ASSERT_TRUE(queue_->try_run_inline(*program, bases)) << round;
    ASSERT_EQ(read<float>(*queue_, {Space::dram, 64}, 5), std::vector<float>(5, 2 * x));
  }
  const EventSource gate;
  const Event held = enqueue(*queue_, MarkCommand{}, {gate.event()});
  EXPECT_FALSE(queue_->try_run_inline(*program, bases));
  gate.complete({});
  held.wait();
}

TEST_P(ProgramConformance, JumpsForwardAndFailsWhereItIsTold) {
  DeviceStep fail;
  fail.kind = DeviceStep::Kind::fail;
  fail.name = "op 2 \"stop\"";
  fail.message = "no branch fits";
  // if (base 2) base 1 = base 0 + base 0 else fail
  using Kind = DeviceStep::Kind;
  const std::vector<DeviceStep> steps = {jump(Kind::jump_if_false, 3, {{.base = 2}}),
                                         add({.base = 0}, {.base = 0}, {.base = 1}),
                                         jump(Kind::jump, 4, {}), fail};
  const auto program = device().prepare(steps);
  write(*queue_, std::vector<float>(5, 2), {Space::dram, 0});
  const std::vector<DeviceAddress> bases = {
      {Space::dram, 0}, {Space::dram, 64}, {Space::dram, 128}};
  write(*queue_, std::vector<std::uint8_t>{1}, {Space::dram, 128}).wait();
  EXPECT_NO_THROW(enqueue(*queue_, LaunchCommand{program, bases}).wait());
  EXPECT_EQ(read<float>(*queue_, {Space::dram, 64}, 5), std::vector<float>(5, 4));
  write(*queue_, std::vector<std::uint8_t>{0}, {Space::dram, 128}).wait();
  const Error error =
      error_of(enqueue(*queue_, LaunchCommand{program, bases}, {}, "program \"p\""));
  EXPECT_EQ(error.code(), ErrorCode::kernel_failed);
  EXPECT_EQ(std::string(error.what()),
            "program \"p\": op 2 \"stop\", device " + device().info().name + ": no branch fits");
}

TEST_P(ProgramConformance, AThrowingKernelNamesStepAndDeviceInlineToo) {
  const OperandType index = {.dtype = DType::i64, .shape = Shape({1}), .layout = {}};
  const auto program = device().prepare(
      std::vector{call("gather", {floats(), index}, {{.base = 0}, {.base = 1}, {.base = 2}},
                       {{"axis", std::int64_t{0}}})});
  write(*queue_, std::vector<std::int64_t>{99}, {Space::dram, 64}).wait();
  const std::vector<DeviceAddress> bases = {
      {Space::dram, 0}, {Space::dram, 64}, {Space::dram, 128}};
  const Error queued = error_of(enqueue(*queue_, LaunchCommand{program, bases}));
  EXPECT_EQ(queued.code(), ErrorCode::kernel_failed);
  EXPECT_NE(std::string(queued.what()).find("op 3 \"gather\", device " + device().info().name),
            std::string::npos)
      << queued.what();
  try {
    queue_->try_run_inline(*program, bases);
    FAIL() << "the kernel didn't throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), queued.what());
  }
  wait_until_idle(*queue_);
}

TEST_P(ProgramConformance, AnEmptyProgramRuns) {
  const auto program = device().prepare({});
  EXPECT_TRUE(queue_->try_run_inline(*program, {}));
  EXPECT_NO_THROW(enqueue(*queue_, LaunchCommand{program, {}}).wait());
}

TEST_P(ProgramConformance, BackwardJumpsAndMissingBasesAreRefused) {
  const std::vector loop = {jump(DeviceStep::Kind::jump, 0, {})};
  EXPECT_THROW(device().prepare(loop), Error);
  const auto program = device().prepare(std::vector{add({.base = 0}, {.base = 1}, {.base = 2})});
  EXPECT_THROW(enqueue(*queue_, LaunchCommand{program, {{Space::dram, 0}}}).wait(), Error);
}

}  // namespace
}  // namespace tilemesh
