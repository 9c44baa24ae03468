// Whether every op reads what it means to: bytes that were written on each way to it, and not since
// overwritten. Jumps go forward, so one pass in order sees every way but those back to the head of
// a loop: a loop is gone through again until what comes back from its end changes nothing at its
// head.

#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "verify.hpp"

namespace tilemesh {
namespace {

// Each jump keeps a copy of what is known, and a value that is put together of others is read piece
// by piece: so many pieces for each value and op, and some for all. A file that needs more is
// hostile; honest ones need a few.
constexpr std::size_t kPiecesEach = 256;
constexpr std::size_t kPiecesForAll = std::size_t{1} << 18;
// Ops that are looked at again, since they are in loops.
constexpr std::size_t kMaxRevisits = std::size_t{1} << 22;

constexpr const char* kTooManyLoops = "its loops are too many, or nested too deep, to be checked";

/// For each byte that was written, by whom: pieces by (buffer, begin).
class Contents {
 public:
  static constexpr std::uint32_t kMixed = 0xffffffff;  // another value on each way

  struct Piece {
    std::int64_t end = 0;
    std::uint32_t owner = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  using Key = std::pair<std::uint64_t, std::int64_t>;
  using Pieces = std::map<Key, Piece>;

  void write(const Footprint& range) {
    if (range.empty()) {
      return;
    }
    split(range.buffer, range.begin);
    split(range.buffer, range.end);
    pieces_.erase(pieces_.lower_bound({range.buffer, range.begin}),
                  pieces_.lower_bound({range.buffer, range.end}));
    pieces_[{range.buffer, range.begin}] = {range.end, range.value};
  }

  /// Calls `visit(owner)` for each piece in the range; false at a byte that nobody wrote.
  template <class Visit>
  bool read(const Footprint& range, Visit visit) const {
    std::int64_t at = range.begin;
    while (at < range.end) {
      auto piece = pieces_.upper_bound({range.buffer, at});
      if (piece == pieces_.begin()) {
        return false;
      }
      --piece;
      if (piece->first.first != range.buffer || piece->second.end <= at) {
        return false;
      }
      visit(piece->second.owner);
      at = piece->second.end;
    }
    return true;
  }

  /// What is known when one may have come from here or from `other`.
  void join(const Contents& other) {
    Pieces both;
    auto a = pieces_.cbegin();
    auto b = other.pieces_.cbegin();
    while (a != pieces_.cend() && b != other.pieces_.cend()) {
      const Key begin = std::max(a->first, b->first);
      const Key a_end{a->first.first, a->second.end};
      const Key b_end{b->first.first, b->second.end};
      const Key end = std::min(a_end, b_end);
      if (begin < end && begin.first == end.first) {
        const bool same = a->second.owner == b->second.owner;
        both[begin] = {end.second, same ? a->second.owner : kMixed};
      }
      if (a_end < b_end) {
        ++a;
      } else {
        ++b;
      }
    }
    pieces_ = std::move(both);
  }

  std::size_t size() const { return pieces_.size(); }
  friend bool operator==(const Contents&, const Contents&) = default;

 private:
  void split(std::uint64_t buffer, std::int64_t at) {
    auto piece = pieces_.lower_bound({buffer, at});
    if (piece == pieces_.begin()) {
      return;
    }
    --piece;
    if (piece->first.first == buffer && piece->second.end > at) {
      pieces_[{buffer, at}] = piece->second;
      piece->second.end = at;
    }
  }

  Pieces pieces_;
};

class FlowCheck {
 public:
  explicit FlowCheck(const ProgramCheck& check)
      : check_(check),
        program_(check.program),
        views_(program_.values.size()),
        has_writer_(program_.values.size(), false),
        pieces_left_(kPiecesForAll + kPiecesEach * (program_.values.size() + program_.ops.size())) {
    std::iota(views_.begin(), views_.end(), 0U);
    for (const ProgramInput& input : program_.inputs) {
      has_writer_[input.value] = true;
    }
    for (const ProgramConstant& constant : program_.constants) {
      has_writer_[constant.value] = true;
    }
    for (const ProgramOp& op : program_.ops) {
      if (op.kind == ProgramOp::Kind::call) {
        find_writers(op);
      }
    }
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      if (program_.ops[i].kind == ProgramOp::Kind::repeat) {
        repeats_[program_.ops[i].target].push_back(i);
        has_writer_[program_.ops[i].inputs[0]] = true;
      }
    }
  }

  void run() {
    enter(0, initial());
    for (std::size_t i = 0; i < program_.ops.size();) {
      if (!std::exchange(goes_back_, false)) {
        arrive(i);
        enter_loops(i, program_.ops.size());
      }
      try {
        i = here_ ? visit(i) : i + 1;  // no way may lead to this op
      } catch (const Error& error) {
        throw error.in(describe_op(program_, i));
      }
    }
    arrive(program_.ops.size());
    if (!here_) {
      return;  // every way ends in a failure
    }
    for (const ProgramOutput& output : program_.outputs) {
      try {
        check_read(output.value);
      } catch (const Error& error) {
        throw error.in(fmt::format("output \"{}\"", output.name));
      }
    }
  }

 private:
  Contents initial() const {
    Contents contents;
    for (const ProgramInput& input : program_.inputs) {
      contents.write(range_of(check_, input.value));
    }
    for (const ProgramConstant& constant : program_.constants) {
      contents.write(range_of(check_, constant.value));
    }
    return contents;
  }

  void find_writers(const ProgramOp& op) {
    if (is_free_view(check_, op)) {
      views_[root(op.outputs[0])] = root(op.inputs[0]);
      return;
    }
    for (const std::uint32_t output : op.outputs) {
      if (output != ProgramOp::kAbsent) {
        has_writer_[output] = true;
      }
    }
  }

  /// The value that stands for all that show each other's bytes by a view op.
  std::uint32_t root(std::uint32_t value) {
    while (views_[value] != value) {
      views_[value] = views_[views_[value]];
      value = views_[value];
    }
    return value;
  }

  void enter(std::size_t op, const Contents& contents) {
    spend(contents.size(), "it has more jumps over more values than can be checked");
    const auto [known, is_new] = arriving_.try_emplace(op, contents);
    if (!is_new) {
      known->second.join(contents);
    }
  }

  void spend(std::size_t pieces, const char* refusal) {
    if (pieces > pieces_left_) {
      broken(refusal);
    }
    pieces_left_ -= pieces;
  }

  /// Joins what comes from the op before with what jumps to this one.
  void arrive(std::size_t op) {
    const auto jumped = arriving_.find(op);
    if (jumped == arriving_.end()) {
      return;
    }
    if (here_) {
      here_->join(jumped->second);
    } else {
      here_ = std::move(jumped->second);
    }
    arriving_.erase(jumped);
  }

  /// Keeps what is known at the heads of loops that begin here and end before `end`.
  void enter_loops(std::size_t op, std::size_t end) {
    const auto loops = repeats_.find(op);
    if (loops == repeats_.end()) {
      return;
    }
    for (const std::size_t repeat : loops->second) {
      if (repeat < end) {
        spend(here_ ? here_->size() : 0, kTooManyLoops);
        heads_[repeat] = here_;
      }
    }
  }

  /// Looks at an op, and gives the one to look at next.
  std::size_t visit(std::size_t i) {
    const ProgramOp& op = program_.ops[i];
    step(op);
    if (op.kind != ProgramOp::Kind::repeat) {
      return i + 1;
    }
    here_->write(range_of(check_, op.inputs[0]));
    Contents& head = heads_.at(i).value();
    Contents both = head;
    both.join(*here_);
    spend(both.size(), kTooManyLoops);
    if (both == head) {
      return i + 1;
    }
    revisits_ += i - op.target + 1;
    if (revisits_ > kMaxRevisits) {
      broken(kTooManyLoops);
    }
    head = both;
    here_ = std::move(both);
    enter_loops(op.target, i);
    goes_back_ = true;
    return op.target;
  }

  void step(const ProgramOp& op) {
    for (const std::uint32_t input : op.inputs) {
      if (input != ProgramOp::kAbsent) {
        check_read(input);
      }
    }
    switch (op.kind) {
      case ProgramOp::Kind::repeat: return;
      case ProgramOp::Kind::jump_if_false: enter(op.target, *here_); return;
      case ProgramOp::Kind::jump:
        enter(op.target, *here_);
        here_.reset();
        return;
      case ProgramOp::Kind::fail: here_.reset(); return;
      case ProgramOp::Kind::call: break;
    }
    if (is_free_view(check_, op)) {
      return;
    }
    for (const std::uint32_t output : op.outputs) {
      if (output != ProgramOp::kAbsent) {
        here_->write(range_of(check_, output));
      }
    }
  }

  /// A value that an op writes must be there itself, or as the value that it is a view of. One that
  /// nobody writes is a view without an op: of what lies around it, or put together of what lies in
  /// it.
  void check_read(std::uint32_t value) {
    const Footprint range = range_of(check_, value);
    const std::uint32_t value_root = root(value);
    const bool written = has_writer_[value] || value_root != value;
    const bool complete = here_->read(range, [&](std::uint32_t owner) {
      spend(1, "its values are put together of more pieces than can be checked");
      if (owner == Contents::kMixed) {
        broken(fmt::format("it reads {}, whose bytes are another value's on each way there",
                           describe(program_, value)));
      }
      if (written ? root(owner) != value_root : !nested(range, range_of(check_, owner))) {
        broken(fmt::format("it reads {}, but {} has overwritten it", describe(program_, value),
                           describe(program_, owner)));
      }
    });
    if (!complete) {
      broken(fmt::format("it reads {}, which nothing has written on some way there",
                         describe(program_, value)));
    }
  }

  static bool nested(const Footprint& a, const Footprint& b) {
    return (a.begin <= b.begin && b.end <= a.end) || (b.begin <= a.begin && a.end <= b.end);
  }

  const ProgramCheck& check_;
  const Program& program_;
  std::vector<std::uint32_t> views_;
  std::vector<bool> has_writer_;
  std::map<std::size_t, std::vector<std::size_t>> repeats_;  // by the head of their loops
  std::map<std::size_t, std::optional<Contents>> heads_;     // by the loop's repeat
  std::map<std::size_t, Contents> arriving_;
  std::size_t pieces_left_;
  bool goes_back_ = false;  // what arrives at the head of this loop is in `heads_` already
  std::size_t revisits_ = 0;
  std::optional<Contents> here_;  // nothing: no way leads here
};

}  // namespace

void check_flow(const ProgramCheck& check) {
  FlowCheck(check).run();
}

}  // namespace tilemesh
