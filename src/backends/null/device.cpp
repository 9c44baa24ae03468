#include "backends/null/device.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/device/command_flow.hpp"
#include "tilemesh/device/strand.hpp"
#include "tilemesh/device/worker_scope.hpp"

#include "backends/null/backend.hpp"

namespace tilemesh::null {

/// Its strand is carried on by whoever gives it something to do.
class NullCore final : public detail::Strand {
 public:
  NullCore(DeviceInfo info, std::string place)
      : Strand(std::move(place)),
        info_(std::move(info)),
        dram_(allocate(info_.dram_bytes)),
        l1_(allocate(info_.l1_bytes)) {
    memory_.set_arena(Space::dram, dram_.get(), info_.dram_bytes);
    memory_.set_arena(Space::l1, l1_.get(), info_.l1_bytes);
  }

  const DeviceInfo& info() const { return info_; }
  const detail::HostMemory& memory() const { return memory_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }  // NOLINT: from aligned_alloc
  };
  using Arena = std::unique_ptr<std::byte, Free>;

  static Arena allocate(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(round_up<std::int64_t>(bytes, 4096));
    Arena arena(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
    if (arena == nullptr) {
      throw Error(ErrorCode::mismatch, fmt::format("the host has no {} bytes for an arena", bytes));
    }
    return arena;
  }

  std::optional<Event> carry_out(const CommandWork& work) override {
    if (const auto* launch = std::get_if<LaunchCommand>(&work)) {
      return static_cast<NullProgram&>(*launch->program).run(launch->bases, launch->gathering);
    }
    detail::carry_out(work, memory_, place(),
                      [this](const CommandWork& entry) { carry_out(entry); });
    return std::nullopt;
  }

  /// On this thread; or on the one that is at it, which may be this one further up its stack.
  void schedule() override {
    const auto self = shared_from_this();  // what it carries out may let go of the device
    if (wanted_.fetch_add(1) > 0) {
      return;
    }
    do {
      carry_on(std::numeric_limits<int>::max());
    } while (wanted_.fetch_sub(1) > 1);
  }

  DeviceInfo info_;
  Arena dram_;
  Arena l1_;
  detail::HostMemory memory_;
  std::atomic<int> wanted_ = 0;  // times that it was scheduled and hasn't run
};

namespace {

class NullQueue final : public DeviceQueue {
 public:
  explicit NullQueue(std::shared_ptr<NullCore> core)
      : core_(std::move(core)), lane_(core_->make_lane()) {}

  void enqueue(Command command) override { core_->enqueue(lane_, std::move(command)); }
  bool idle() const override { return lane_->idle(); }
  bool help() override { return core_->help(); }
  bool try_run_inline(DeviceProgram& program, std::span<const DeviceAddress> bases) override {
    if (program.membership() != nullptr) {
      return false;
    }
    const detail::Strand::Claim claim(*core_, *lane_);
    if (claim.held()) {
      const detail::WorkerScope scope;
      static_cast<NullProgram&>(program).run(bases, nullptr);
    }
    return claim.held();
  }

 private:
  std::shared_ptr<NullCore> core_;
  std::shared_ptr<detail::Lane> lane_;
};

constexpr std::int64_t kDramBytes = std::int64_t{64} << 20;
constexpr std::int64_t kL1Bytes = std::int64_t{1} << 20;

std::vector<std::unique_ptr<Device>> open(const DeviceOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < options.count; ++i) {
    devices.push_back(std::make_unique<NullDevice>(i, options));
  }
  return devices;
}

TargetInfo query(int, int) {
  return {.backend = "null",
          .processor = "none",
          .features = {},
          .l1_bytes = kL1Bytes,
          .dram_bytes = kDramBytes,
          .memory_bytes = kDramBytes};
}

/// The reference target, which lives as long as the process, as an object of its own.
class NullTarget final : public Target {
 public:
  explicit NullTarget(TargetInfo info) : info_(std::move(info)) {}
  const TargetInfo& info() const override { return info_; }
  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constant_inputs) const override {
    return reference_target().candidates(call, constant_inputs);
  }
  double convert_seconds(const OperandType& from, const Layout& to) const override {
    return reference_target().convert_seconds(from, to);
  }
  bool can_fuse(const OpCall& call, const ExpressionStep& step,
                const OperandType* operand) const override {
    return reference_target().can_fuse(call, step, operand);
  }

 private:
  TargetInfo info_;
};

std::unique_ptr<Target> target(const TargetInfo& info) {
  return std::make_unique<NullTarget>(info);
}

}  // namespace

NullDevice::NullDevice(int index, const DeviceOptions& options) {
  const auto at = static_cast<std::size_t>(index);
  DeviceInfo info = {.name = fmt::format("null:{}", index),
                     .backend = "null",
                     .threads = 1,
                     .dram_bytes = options.dram_bytes > 0 ? options.dram_bytes : kDramBytes,
                     .l1_bytes = options.l1_bytes > 0 ? options.l1_bytes : kL1Bytes};
  std::string place = at < options.places.size() ? options.places[at] : info.name;
  core_ = std::make_shared<NullCore>(std::move(info), std::move(place));
}

NullDevice::~NullDevice() {
  core_->close();
}

const DeviceInfo& NullDevice::info() const {
  return core_->info();
}

std::byte* NullDevice::map(Space space) {
  return core_->memory().base(space);
}

void NullDevice::commit(DeviceAddress address, std::int64_t bytes) {
  core_->memory().at(address, bytes);
}

std::shared_ptr<DeviceProgram> NullDevice::prepare(std::span<const DeviceStep> steps) {
  return std::make_shared<NullProgram>(steps, core_->place(), core_->memory());
}

std::unique_ptr<DeviceQueue> NullDevice::create_queue() {
  return std::make_unique<NullQueue>(core_);
}

const Backend& backend() {
  static constexpr Backend kBackend = {"null", open, query, target};
  return kBackend;
}

}  // namespace tilemesh::null
