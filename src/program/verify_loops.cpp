// Whether every loop ends: loops nest, no jump leads into or out of one, and nothing but its end
// writes the counter of a loop.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "verify.hpp"

namespace tilemesh {
namespace {

constexpr std::size_t kMaxDepth = 64;

struct Loop {
  std::size_t head = 0;
  std::size_t repeat = 0;
  Footprint counter;
  const Loop* outer = nullptr;

  bool holds(std::size_t op) const { return head <= op && op <= repeat; }
};

bool overlap(const Footprint& a, const Footprint& b) {
  return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

class LoopCheck {
 public:
  explicit LoopCheck(const ProgramCheck& check) : check_(check), program_(check.program) {
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      const ProgramOp& op = program_.ops[i];
      if (op.kind != ProgramOp::Kind::repeat) continue;
      loops_.push_back({op.target, i, range_of(check, op.inputs[0]), nullptr});
    }
    // From outside to inside where two begin together.
    std::ranges::sort(loops_, [](const Loop& a, const Loop& b) {
      return a.head != b.head ? a.head < b.head : a.repeat > b.repeat;
    });
  }

  void run() {
    if (loops_.empty()) return;
    std::vector<const Loop*> open;
    auto next = loops_.begin();
    innermost_.resize(program_.ops.size() + 1, nullptr);
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      while (!open.empty() && open.back()->repeat < i)
        open.pop_back();
      for (; next != loops_.end() && next->head == i; ++next)
        enter(*next, open);
      innermost_[i] = open.empty() ? nullptr : open.back();
      check_writes(i, open);
    }
    for (std::size_t i = 0; i < program_.ops.size(); ++i)
      check_jump(i);
  }

 private:
  static void enter(Loop& loop, std::vector<const Loop*>& open) {
    if (!open.empty() && loop.repeat >= open.back()->repeat) {
      broken(fmt::format("the loops of ops {} to {} and {} to {} cross", open.back()->head,
                         open.back()->repeat, loop.head, loop.repeat));
    }
    if (open.size() == kMaxDepth) {
      broken(fmt::format("its loops are nested more than {} deep", kMaxDepth));
    }
    loop.outer = open.empty() ? nullptr : open.back();
    open.push_back(&loop);
  }

  void check_writes(std::size_t i, const std::vector<const Loop*>& open) const {
    const ProgramOp& op = program_.ops[i];
    const auto check_write = [&](std::uint32_t value) {
      if (value == ProgramOp::kAbsent) return;
      const Footprint range = range_of(check_, value);
      for (const Loop* loop : open) {
        const bool own = op.kind == ProgramOp::Kind::repeat && loop->repeat == i;
        if (own || !overlap(range, loop->counter)) continue;
        throw Error(ErrorCode::invalid_file,
                    fmt::format("it writes {}, the counter of the loop of ops {} to {}",
                                describe(program_, value), loop->head, loop->repeat))
            .in(describe_op(program_, i));
      }
    };
    if (op.kind == ProgramOp::Kind::repeat) check_write(op.inputs[0]);
    for (const std::uint32_t value : op.outputs)
      check_write(value);
  }

  /// A jump stays in its loop; one that comes from outside may lead to a loop's first op.
  void check_jump(std::size_t i) const {
    const ProgramOp& op = program_.ops[i];
    if (op.kind != ProgramOp::Kind::jump && op.kind != ProgramOp::Kind::jump_if_false) return;
    const Loop* from = innermost_[i];
    const bool leaves = from != nullptr && !from->holds(op.target);
    bool enters = false;
    for (const Loop* loop = innermost_[op.target]; loop != nullptr; loop = loop->outer) {
      enters = enters || (!loop->holds(i) && loop->head != op.target);
    }
    if (!leaves && !enters) return;
    throw Error(ErrorCode::invalid_file,
                fmt::format("it jumps {} a loop, to op {}", leaves ? "out of" : "into", op.target))
        .in(describe_op(program_, i));
  }

  const ProgramCheck& check_;
  const Program& program_;
  std::vector<Loop> loops_;
  std::vector<const Loop*> innermost_;  // by op
};

}  // namespace

void check_loops(const ProgramCheck& check) {
  LoopCheck(check).run();
}

}  // namespace tilemesh
