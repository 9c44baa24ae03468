#include "backends/cpu/kernels/dnnl/adapter.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <omp.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "backends/cpu/kernels/dnnl/post_ops.hpp"
#include "backends/cpu/kernels/invalid_flag.hpp"
#include "backends/cpu/kernels/unfused.hpp"

namespace tilemesh::cpu::onednn {
namespace {

constexpr std::int64_t kAlignment = 64;

void check(dnnl_status_t status, std::string_view what) {
  if (status != dnnl_success) [[unlikely]] {
    throw Error(ErrorCode::kernel_failed,
                fmt::format("oneDNN could not {}: status {}", what, static_cast<int>(status)));
  }
}

/// The way out where a primitive's post-ops have met an invalid operation: the call in two passes,
/// made when it is first needed, since few programs ever meet a NaN.
class Unfused {
 public:
  Unfused(const OpCall& call, int threads) : call_(call), threads_(threads) {}

  void run(std::byte* const* operands) {
    const std::byte* const result = operands[call_.inputs.size()];
    if (std::find(operands, operands + call_.inputs.size(), result) !=
        operands + call_.inputs.size()) {
      return;  // an operand is gone; the compiler places none so
    }
    if (!kernel_) {
      kernel_ = make_unfused(call_, {.threads = threads_});
      room_.resize(static_cast<std::size_t>(kernel_->scratch_bytes() + kAlignment));
    }
    void* scratch = room_.data();
    std::size_t space = room_.size();
    std::align(kAlignment, space - kAlignment, scratch, space);
    kernel_->run(operands, static_cast<std::byte*>(scratch));
  }

 private:
  OpCall call_;
  int threads_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::byte> room_;
};

class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(std::vector<KernelBuilder::Slot> slots, std::vector<KernelBuilder::Tile> tiles,
                  std::vector<KernelBuilder::Stage> stages, std::int64_t scratch_bytes, int threads,
                  bool is_limited, std::string name, std::unique_ptr<Unfused> unfused)
      : slots_(std::move(slots)),
        tiles_(std::move(tiles)),
        stages_(std::move(stages)),
        stream_(cpu_engine()),
        scratch_bytes_(scratch_bytes),
        threads_(threads),
        is_limited_(is_limited),
        name_(std::move(name)),
        unfused_(std::move(unfused)) {}

  void run(std::byte* const* operands, std::byte* scratch) override {
    for (KernelBuilder::Slot& slot : slots_) {
      std::byte* address = slot.is_operand ? operands[slot.operand] : scratch + slot.scratch_offset;
      if (slot.address != address) {
        check(dnnl_memory_set_data_handle(slot.memory.get(), address), "take an address");
        slot.address = address;
      }
    }
    for (const KernelBuilder::Tile& tile : tiles_) {
      for (std::int64_t i = 0; i < tile.times; ++i) {
        std::memcpy(scratch + tile.scratch_offset + i * tile.bytes, operands[tile.operand],
                    static_cast<std::size_t>(tile.bytes));
      }
    }
    if (is_limited_) {
      const ThreadLimit limit(threads_);
      execute();
      keep_nan(operands);
    } else {
      execute();
      keep_nan(operands);
    }
  }

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  int threads() const override { return threads_; }
  std::string_view name() const override { return name_; }

 private:
  void execute() {
    if (unfused_) {
      take_invalid_flag();  // those of a team may be left from others: that costs time alone
    }
    for (const KernelBuilder::Stage& stage : stages_) {
      check(
          dnnl_primitive_execute(stage.primitive.get(), stream_.get(),
                                 static_cast<int>(stage.arguments.size()), stage.arguments.data()),
          "run a primitive");
    }
  }

  void keep_nan(std::byte* const* operands) {
    // The team is as large as the caller lets it be, whatever the primitives were made for.
    if (unfused_ && take_invalid_flags(omp_get_max_threads())) [[unlikely]] {
      unfused_->run(operands);
    }
  }

  std::vector<KernelBuilder::Slot> slots_;
  std::vector<KernelBuilder::Tile> tiles_;
  std::vector<KernelBuilder::Stage> stages_;
  dnnl::stream stream_;
  std::int64_t scratch_bytes_;
  int threads_;
  bool is_limited_;  // to fewer threads than the caller has set
  std::string name_;
  std::unique_ptr<Unfused> unfused_;  // null: no post-op loses a NaN
};

}  // namespace

void require(bool condition, std::string_view reason) {
  if (!condition) {
    throw Refused{std::string(reason)};
  }
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::string implementation_of(const dnnl::primitive_desc_base& primitive) {
  return primitive.impl_info_str();
}

void refuse_reference(const dnnl::primitive_desc_base& primitive) {
  const std::string name = implementation_of(primitive);
  if (name.starts_with("ref")) {
    throw Refused{fmt::format("oneDNN has only \"{}\" for these layouts and shapes", name)};
  }
}

bool has_isa(dnnl::cpu_isa isa) {
  // The enumerators are sets of bits, one a feature.
  const auto wanted = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool has_bf16() {
  return has_isa(dnnl::cpu_isa::avx512_core_bf16);
}

int threads_for(double seconds_on_one, int device_threads) {
  constexpr double kWorthATeam = 20e-6;
  return seconds_on_one < kWorthATeam ? 1 : device_threads;
}

ThreadLimit::ThreadLimit(int count) {
  const int now = omp_get_max_threads();
  if (now != count) {
    before_ = now;
    omp_set_num_threads(count);
  }
}

ThreadLimit::~ThreadLimit() {
  if (before_ != 0) {
    omp_set_num_threads(before_);
  }
}

dnnl::primitive_attr attributes_with(const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return attributes;
}

KernelBuilder::KernelBuilder(int threads, int device_threads)
    : threads_(threads), device_threads_(device_threads) {}

int KernelBuilder::add_slot(const dnnl::memory::desc& desc, Slot slot) {
  slot.memory = dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE);
  slots_.push_back(std::move(slot));
  return narrow<int>(slots_.size()) - 1;
}

int KernelBuilder::operand(std::size_t index, const dnnl::memory::desc& desc) {
  Slot slot;
  slot.is_operand = true;
  slot.operand = index;
  return add_slot(desc, std::move(slot));
}

int KernelBuilder::scratch(const dnnl::memory::desc& desc) {
  Slot slot;
  slot.scratch_offset = scratch_bytes_;
  scratch_bytes_ =
      checked_add(scratch_bytes_, round_up(narrow<std::int64_t>(desc.get_size()), kAlignment));
  return add_slot(desc, std::move(slot));
}

int KernelBuilder::input(std::size_t index, const dnnl::memory::desc& given,
                         const dnnl::memory::desc& wanted) {
  const int slot = operand(index, given);
  if (given == wanted) {
    return slot;
  }
  ++copies_;
  const int copy = scratch(wanted);
  add_reorder(slot, copy);
  return copy;
}

int KernelBuilder::output(std::size_t index, const dnnl::memory::desc& given,
                          const dnnl::memory::desc& wanted) {
  const int slot = operand(index, given);
  if (given == wanted) {
    return slot;
  }
  ++copies_;
  last_.push_back({scratch(wanted), slot});
  return last_.back().from;
}

int KernelBuilder::view(int slot, const dnnl::memory::desc& desc) {
  Slot same = slots_[static_cast<std::size_t>(slot)];
  return add_slot(desc, std::move(same));
}

int KernelBuilder::tiled(std::size_t operand, const dnnl::memory::desc& desc, std::int64_t times) {
  const auto bytes = narrow<std::int64_t>(desc.get_size());
  const dnnl::memory::desc all({checked_mul(bytes, times)}, dnnl::memory::data_type::u8,
                               dnnl::memory::format_tag::a);
  tiles_.push_back({operand, scratch_bytes_, bytes, times});
  return scratch(all);
}

void KernelBuilder::add_reorder(int from, int to) {
  const auto desc = [&](int slot) {
    return slots_[static_cast<std::size_t>(slot)].memory.get_desc();
  };
  const dnnl::reorder::primitive_desc reorder(cpu_engine(), desc(from), cpu_engine(), desc(to),
                                              attributes_with());
  add(dnnl::reorder(reorder), reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void KernelBuilder::add(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
                        std::vector<Argument> arguments) {
  const dnnl::memory::desc scratchpad =
      desc.query_md(dnnl::query::exec_arg_md, DNNL_ARG_SCRATCHPAD);
  if (scratchpad.get_size() > 0) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch(scratchpad)});
  }
  may_lose_nan_ = may_lose_nan_ || may_lose_nan(desc.get_primitive_attr().get_post_ops());
  Stage stage{primitive, {}};
  for (const Argument& argument : arguments) {
    stage.arguments.push_back(
        {argument.role, slots_[static_cast<std::size_t>(argument.slot)].memory.get()});
  }
  stages_.push_back(std::move(stage));
}

std::unique_ptr<Kernel> KernelBuilder::finish(std::string name, const OpCall* call) {
  for (const Copy& copy : last_) {
    add_reorder(copy.from, copy.to);
  }
  if (copies_ > 0) {
    name += "+reorder";
  }
  std::unique_ptr<Unfused> unfused;
  if (may_lose_nan_) {
    TILEMESH_CHECK(call != nullptr, "a kernel with post-ops doesn't say what it was made of");
    unfused = std::make_unique<Unfused>(*call, threads_);
  }
  return std::make_unique<PrimitiveKernel>(std::move(slots_), std::move(tiles_), std::move(stages_),
                                           scratch_bytes_, threads_, threads_ != device_threads_,
                                           std::move(name), std::move(unfused));
}

namespace detail {

KernelOffer offer(std::unique_ptr<Kernel> (*make)(const OpCall&, const KernelContext&),
                  const OpCall& call, const KernelContext& context) {
  try {
    return {make(call, context), ""};
  } catch (const Refused& refused) {
    return {nullptr, refused.reason};
  } catch (const dnnl::error& error) {
    return {nullptr, fmt::format("oneDNN: {}", error.what())};
  }
}

}  // namespace detail

}  // namespace tilemesh::cpu::onednn
