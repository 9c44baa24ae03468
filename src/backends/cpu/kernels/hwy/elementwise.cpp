#include "elementwise.hpp"

#include <algorithm>
#include <cstring>

#include "tilemesh/base/math.hpp"
#include "tilemesh/types/strided.hpp"

#include "nest.hpp"
#include "parallel.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Elements of a chunk: a few buffers of it fit the first-level cache.
constexpr std::int64_t kChunk = 1024;
constexpr std::int64_t kBufferBytes = kChunk * 8;
constexpr double kNanosecondsPerElement = 0.15;
constexpr std::int64_t kAlignment = 64;

/// Copies `rows` times `columns` elements with these strides to a dense buffer.
using GatherFn = void (*)(const std::byte* from, std::byte* to, std::int64_t rows,
                          std::int64_t columns, std::int64_t row_stride, std::int64_t stride);

/// Fills `count` elements with the first `period` ones of `source`, over and over.
template <class T>
void repeat(const T* source, T* target, std::int64_t period, std::int64_t count) {
  std::memcpy(target, source, static_cast<std::size_t>(period) * sizeof(T));
  for (std::int64_t done = period; done < count;) {
    const std::int64_t next = std::min(done, count - done);
    std::memcpy(target + done, target, static_cast<std::size_t>(next) * sizeof(T));
    done += next;
  }
}

template <class T>
void gather(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns,
            std::int64_t row_stride, std::int64_t stride) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  if (row_stride == 0 && stride == 1) {
    repeat(source, target, columns, rows * columns);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, source += row_stride, target += columns) {
    if (stride == 0) {
      std::fill_n(target, columns, *source);
    } else if (stride == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(columns) * sizeof(T));
    } else {
      for (std::int64_t c = 0; c < columns; ++c)
        target[c] = source[c * stride];
    }
  }
}

GatherFn gather_of(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return gather<std::uint8_t>;
    case 2: return gather<std::uint16_t>;
    case 4: return gather<std::uint32_t>;
    default: return gather<std::uint64_t>;
  }
}

/// How an operand is read within a tile.
struct OperandWalk {
  enum class Mode : std::uint8_t { direct, uniform, gathered };
  Mode mode = Mode::direct;
  std::size_t place = 0;
  std::int64_t element_bytes = 4;
  std::int64_t row_stride = 0;
  std::int64_t stride = 0;
  GatherFn gather = nullptr;
  int buffer = -1;  ///< of gathered ones
  std::int64_t staged_offset = -1;
};

/// An operand that is brought to a layout that can be followed before the loops run.
struct Staged {
  OperandType from;
  Layout layout;
  std::size_t place = 0;
  std::int64_t offset = 0;  ///< in scratch
};

/// An instruction with its values resolved: as numbers of operands or of buffers.
struct Resolved {
  struct Source {
    bool is_operand = false;
    int index = 0;
  };
  ChunkFn fn = nullptr;
  int inputs = 1;
  std::array<Source, 3> in{};
  int out_buffer = -1;  ///< -1: the output
  std::uint32_t uniform = 0;
  bool one_element = false;  ///< all inputs are uniform, and so is the result
  float alpha = 0;
  float beta = 0;
};

/// The shape of the loops: tiles of `tile_rows` by `tile_columns` elements, dense in the output,
/// over [outer..., rows, columns].
struct TileGrid {
  std::vector<NestLoop> outer;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t tile_rows = 1;
  std::int64_t tile_columns = 1;
  std::int64_t row_tiles = 1;
  std::int64_t column_tiles = 1;
  std::int64_t tiles = 1;
};

TileGrid grid_of(const Nest& nest) {
  TileGrid grid;
  grid.outer.assign(nest.begin(), nest.end() - 1);
  grid.columns = nest.back().size;
  grid.tile_columns = std::min(grid.columns, kChunk);
  if (grid.columns < kChunk / 2 && !grid.outer.empty()) {
    grid.rows = grid.outer.back().size;
    const std::int64_t rows = std::max<std::int64_t>(grid.rows, 1);
    const std::int64_t most = kChunk / std::max<std::int64_t>(grid.columns, 1);
    grid.tile_rows = ceil_div(rows, ceil_div(rows, most));  // about equal tiles
    grid.outer.pop_back();
  }
  grid.row_tiles = ceil_div(grid.rows, grid.tile_rows);
  grid.column_tiles = grid.columns == 0 ? 0 : ceil_div(grid.columns, grid.tile_columns);
  grid.tiles = grid.row_tiles * grid.column_tiles;
  for (const NestLoop& loop : grid.outer) {
    grid.tiles *= loop.size;
  }
  return grid;
}

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(ElementwiseProgram program, std::string name, int device_threads);

  void run(std::byte* const* operands, std::byte* scratch) override;
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  int threads() const override { return threads_; }
  std::string_view name() const override { return name_; }

 private:
  void plan_walks(const ElementwiseProgram& program);
  void plan_instructions(const ElementwiseProgram& program);
  void plan_padding(const ElementwiseProgram& program);
  void run_tiles(std::byte* const* operands, std::byte* scratch, int thread, std::int64_t begin,
                 std::int64_t end) const;
  void run_chunk(const std::byte* const* bases, std::byte* out, std::byte* buffers,
                 std::int64_t count) const;

  std::string name_;
  TileGrid grid_;
  std::vector<OperandWalk> walks_;
  std::vector<Resolved> instructions_;
  std::vector<Staged> staged_;
  std::vector<Box> padding_;
  std::size_t output_place_ = 0;
  std::int64_t output_bytes_ = 4;  // of an element
  bool whole_ = false;             // one instruction over one dense run
  ChunkArgs whole_args_;
  int threads_ = 1;
  std::int64_t buffers_offset_ = 0;
  std::int64_t buffer_bytes_per_thread_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

ElementwiseKernel::ElementwiseKernel(ElementwiseProgram program, std::string name,
                                     int device_threads)
    : name_(std::move(name)),
      output_place_(program.output_place),
      output_bytes_(size_of(program.output.dtype)) {
  plan_walks(program);
  plan_instructions(program);
  plan_padding(program);
  double cost = 0;
  for (const Instruction& instruction : program.instructions) {
    cost += instruction.cost;
  }
  const auto elements = static_cast<double>(grid_.tiles * grid_.tile_rows * grid_.tile_columns);
  threads_ =
      program.may_throw ? 1 : threads_for(elements * cost * kNanosecondsPerElement, device_threads);
  scratch_bytes_ = buffers_offset_ + buffer_bytes_per_thread_ * threads_;
}

void ElementwiseKernel::plan_walks(const ElementwiseProgram& program) {
  std::vector<OperandType> types = program.operands;
  std::vector<const OperandType*> pointers;
  for (const OperandType& type : types) {
    pointers.push_back(&type);
  }
  Walk walk(program.output, pointers);
  for (std::size_t k = 0; k < types.size(); ++k) {
    if (walk.follows[k]) continue;
    Staged staged{types[k], layout_to_follow(program.output, types[k]), program.places[k],
                  buffers_offset_};
    types[k].layout = staged.layout;
    buffers_offset_ += round_up(types[k].bytes(), kAlignment);
    staged_.push_back(std::move(staged));
  }
  if (!staged_.empty()) {
    walk = Walk(program.output, pointers);
    TILEMESH_CHECK(std::ranges::find(walk.follows, false) == walk.follows.end(),
                   "an operand in the output's own layout can't be followed");
  }
  grid_ = grid_of(walk.nest);
  const NestLoop& columns = walk.nest.back();
  for (std::size_t k = 0; k < types.size(); ++k) {
    OperandWalk own{.place = program.places[k],
                    .element_bytes = size_of(types[k].dtype),
                    .stride = columns.strides[k]};
    const bool has_rows = grid_.outer.size() + 2 == walk.nest.size();
    if (has_rows) own.row_stride = walk.nest[walk.nest.size() - 2].strides[k];
    const bool one_row = grid_.tile_rows == 1;
    const bool one_column = grid_.columns == 1;
    if ((own.stride == 1 || one_column) && (one_row || own.row_stride == grid_.columns)) {
      own.mode = OperandWalk::Mode::direct;
    } else if (own.stride == 0 && (one_row || own.row_stride == 0)) {
      own.mode = OperandWalk::Mode::uniform;
    } else {
      own.mode = OperandWalk::Mode::gathered;
      own.gather = gather_of(own.element_bytes);
    }
    for (const Staged& staged : staged_) {
      if (staged.place == own.place) own.staged_offset = staged.offset;
    }
    walks_.push_back(own);
  }
}

void ElementwiseKernel::plan_instructions(const ElementwiseProgram& program) {
  // Buffers are given back after the last use of the value that they hold.
  std::vector<bool> taken;
  const auto take = [&taken] {
    const auto free = std::ranges::find(taken, false);
    const auto index = free - taken.begin();
    if (free == taken.end()) taken.push_back(true);
    taken[static_cast<std::size_t>(index)] = true;
    return static_cast<int>(index);
  };
  for (OperandWalk& walk : walks_) {
    if (walk.mode == OperandWalk::Mode::gathered) walk.buffer = take();
  }
  struct Value {
    int buffer = -1;
    bool uniform = false;
    std::size_t last_use = 0;
  };
  std::vector<Value> values;
  const auto& list = program.instructions;
  for (std::size_t i = 0; i < list.size(); ++i) {
    values.emplace_back();
    for (int k = 0; k < list[i].inputs; ++k) {
      const ValueRef ref = list[i].in[static_cast<std::size_t>(k)];
      if (ref.kind == ValueRef::Kind::intermediate) {
        values[static_cast<std::size_t>(ref.index)].last_use = i;
      }
    }
  }
  std::size_t written = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Instruction& from = list[i];
    Resolved to{.fn = from.fn, .inputs = from.inputs, .alpha = from.alpha, .beta = from.beta};
    for (int k = 0; k < from.inputs; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const auto index = static_cast<std::size_t>(from.in[at].index);
      bool uniform = false;
      if (from.in[at].kind == ValueRef::Kind::operand) {
        to.in[at] = {true, from.in[at].index};
        uniform = walks_[index].mode == OperandWalk::Mode::uniform;
      } else {
        to.in[at] = {false, values[index].buffer};
        uniform = values[index].uniform;
      }
      if (uniform) to.uniform |= 1u << k;
    }
    to.one_element = to.uniform == (1u << from.inputs) - 1;
    if (from.out.kind == ValueRef::Kind::intermediate) {
      Value& value = values[written++];
      to.out_buffer = value.buffer = take();
      value.uniform = to.one_element;
    }
    for (const Value& value : values) {
      if (value.buffer >= 0 && value.last_use == i) {
        taken[static_cast<std::size_t>(value.buffer)] = false;
      }
    }
    instructions_.push_back(to);
  }
  buffer_bytes_per_thread_ = static_cast<std::int64_t>(taken.size()) * kBufferBytes;
  const auto is_gathered = [](const OperandWalk& walk) {
    return walk.mode == OperandWalk::Mode::gathered;
  };
  whole_ = instructions_.size() == 1 && grid_.outer.empty() && grid_.rows == 1 &&
           std::ranges::none_of(walks_, is_gathered);
  if (!whole_) return;
  const Resolved& only = instructions_.front();
  whole_args_.uniform = only.uniform;
  whole_args_.alpha = only.alpha;
  whole_args_.beta = only.beta;
  whole_args_.count = grid_.columns;
}

void ElementwiseKernel::plan_padding(const ElementwiseProgram& program) {
  if (!program.output.layout.has_padding(program.output.shape)) return;
  const bool stays_zero = std::ranges::all_of(program.instructions, &Instruction::zero_to_zero) &&
                          std::ranges::all_of(program.operands, [&](const OperandType& operand) {
                            return pads_like(program.output, operand);
                          });
  if (!stays_zero) padding_ = padding_of(program.output);
}

void ElementwiseKernel::run(std::byte* const* operands, std::byte* scratch) {
  if (whole_ && staged_.empty() && threads_ == 1) [[likely]] {
    ChunkArgs args = whole_args_;
    const Resolved& only = instructions_.front();
    for (int k = 0; k < only.inputs; ++k) {
      const auto at = static_cast<std::size_t>(k);
      args.in[at] = operands[walks_[static_cast<std::size_t>(only.in[at].index)].place];
    }
    args.out = operands[output_place_];
    if (args.count > 0) only.fn(args);
  } else {
    for (const Staged& staged : staged_) {
      relayout(operands[staged.place], staged.from.dtype, staged.from.layout,
               scratch + staged.offset, staged.from.dtype, staged.layout, staged.from.shape);
    }
    parallel_for(threads_, grid_.tiles, [&](int thread, std::int64_t begin, std::int64_t end) {
      run_tiles(operands, scratch, thread, begin, end);
    });
  }
  if (!padding_.empty()) fill_with_zeros(padding_, output_bytes_, operands[output_place_]);
}

void ElementwiseKernel::run_tiles(std::byte* const* operands, std::byte* scratch, int thread,
                                  std::int64_t begin, std::int64_t end) const {
  std::byte* buffers = scratch + buffers_offset_ + buffer_bytes_per_thread_ * thread;
  std::array<const std::byte*, kMaxOperands> bases{};
  struct Gathered {
    const std::byte* base = nullptr;
    std::int64_t rows = 0;
  };
  std::array<Gathered, kMaxOperands> gathered{};
  for (std::int64_t tile = begin; tile < end; ++tile) {
    std::int64_t rest = tile;
    const std::int64_t column = rest % grid_.column_tiles * grid_.tile_columns;
    rest /= grid_.column_tiles;
    const std::int64_t row = rest % grid_.row_tiles * grid_.tile_rows;
    rest /= grid_.row_tiles;
    const std::int64_t columns = std::min(grid_.tile_columns, grid_.columns - column);
    const std::int64_t rows = std::min(grid_.tile_rows, grid_.rows - row);
    std::array<std::int64_t, kMaxOperands> offsets{};
    std::int64_t out_offset = row * grid_.columns + column;
    for (std::size_t k = 0; k < walks_.size(); ++k) {
      offsets[k] = row * walks_[k].row_stride + column * walks_[k].stride;
    }
    for (auto loop = grid_.outer.rbegin(); loop != grid_.outer.rend() && rest != 0; ++loop) {
      const std::int64_t index = rest % loop->size;
      rest /= loop->size;
      out_offset += index * loop->out_stride;
      for (std::size_t k = 0; k < walks_.size(); ++k) {
        offsets[k] += index * loop->strides[k];
      }
    }
    for (std::size_t k = 0; k < walks_.size(); ++k) {
      const OperandWalk& walk = walks_[k];
      const std::byte* base =
          walk.staged_offset < 0 ? operands[walk.place] : scratch + walk.staged_offset;
      bases[k] = base + offsets[k] * walk.element_bytes;
      if (walk.mode != OperandWalk::Mode::gathered) continue;
      std::byte* buffer = buffers + walk.buffer * kBufferBytes;
      // A pattern that repeats from row to row is still there from the tile before.
      const bool repeats = walk.row_stride == 0 && columns == grid_.columns;
      const bool held = gathered[k].base == bases[k] && gathered[k].rows >= rows;
      if (!repeats || !held) {
        walk.gather(bases[k], buffer, rows, columns, walk.row_stride, walk.stride);
        gathered[k] = {bases[k], rows};
      }
      bases[k] = buffer;
    }
    run_chunk(bases.data(), operands[output_place_] + out_offset * output_bytes_, buffers,
              rows * columns);
  }
}

void ElementwiseKernel::run_chunk(const std::byte* const* bases, std::byte* out, std::byte* buffers,
                                  std::int64_t count) const {
  for (const Resolved& instruction : instructions_) {
    ChunkArgs args;
    for (int k = 0; k < instruction.inputs; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const auto [is_operand, index] = instruction.in[at];
      args.in[at] = is_operand ? bases[index] : buffers + index * kBufferBytes;
    }
    const bool last = instruction.out_buffer < 0;
    args.out = last ? out : buffers + instruction.out_buffer * kBufferBytes;
    args.count = instruction.one_element && !last ? 1 : count;
    args.uniform = instruction.uniform;
    args.alpha = instruction.alpha;
    args.beta = instruction.beta;
    instruction.fn(args);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_elementwise(ElementwiseProgram program, std::string name,
                                         int device_threads) {
  return std::make_unique<ElementwiseKernel>(std::move(program), std::move(name), device_threads);
}

}  // namespace tilemesh::cpu::highway
