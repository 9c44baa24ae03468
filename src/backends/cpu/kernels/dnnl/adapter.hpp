#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dnnl.hpp>

#include "backends/cpu/kernel_list.hpp"

namespace tilemesh::cpu::onednn {

/// Why a kernel can't be made of a call: thrown within this folder, and turned into
/// KernelOffer::refusal by offer_with().
struct Refused {
  std::string reason;
};

/// Throws Refused unless `condition`.
void require(bool condition, std::string_view reason);

/// The one CPU engine of the process; oneDNN's own is shared and thread-safe.
const dnnl::engine& cpu_engine();

/// The name of a primitive's implementation, "jit:avx512_core".
std::string implementation_of(const dnnl::primitive_desc_base& primitive);

/// Throws Refused when oneDNN found nothing better than its plain reference loops, which are slower
/// than a detour over another layout.
void refuse_reference(const dnnl::primitive_desc_base& primitive);

/// True if oneDNN generates code for this instruction set here.
bool has_isa(dnnl::cpu_isa isa);
/// True if bf16 is computed natively; oneDNN would emulate it slowly.
bool has_bf16();

/// What one core does per second, roughly: for choosing thread counts, no more.
inline constexpr double kFlopsPerSecond = 100e9;
inline constexpr double kBytesPerSecond = 10e9;

/// How many of the device's threads a kernel of about so many seconds on one thread should use:
/// opening a team costs some microseconds.
int threads_for(double seconds_on_one, int device_threads);

/// While it lives, the calling thread opens OpenMP teams of at most `count` threads.
class ThreadLimit {
 public:
  explicit ThreadLimit(int count);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();

 private:
  int before_ = 0;  // 0: nothing changed
};

/// The attributes that every primitive here has: scratch memory is ours.
dnnl::primitive_attr attributes_with(const dnnl::post_ops& post_ops = {});

/// Collects primitives over shared memory objects into one Kernel.
///
/// A slot is a memory object: an operand of the call (inputs first, then outputs) or a piece of the
/// kernel's scratch memory. Primitives run in the order in which they were added.
class KernelBuilder {
 public:
  struct Argument {
    int role = 0;  ///< DNNL_ARG_*
    int slot = 0;
  };

  /// `threads`: the team that the primitives were made for; `device_threads`: the caller's setting.
  KernelBuilder(int threads, int device_threads);

  int operand(std::size_t index, const dnnl::memory::desc& desc);
  int scratch(const dnnl::memory::desc& desc);
  /// The same memory as another slot's, in another form.
  int view(int slot, const dnnl::memory::desc& desc);
  /// Scratch memory that repeats an operand's memory of form `desc` so many times.
  int tiled(std::size_t operand, const dnnl::memory::desc& desc, std::int64_t times);
  /// An input in the wanted form: the operand itself, or a copy in scratch memory that a reorder
  /// fills first.
  int input(std::size_t index, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);
  /// An output in the wanted form: the operand itself, or scratch memory that finish() copies on.
  int output(std::size_t index, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);
  /// Adds the primitive; its own scratchpad becomes an argument as well.
  void add(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
           std::vector<Argument> arguments);

  void add_reorder(int from, int to);

  /// Says that a primitive bounds its values, and so may give a number for NaN; add() sees it of
  /// post-ops by itself. The kernel then looks at the processor's flag of invalid operations when
  /// it is done, and computes the call again, in two passes, where it is raised.
  void look_for_nan() { may_lose_nan_ = true; }

  /// `call`: what the kernel was made of; needed if a primitive has post-ops.
  std::unique_ptr<Kernel> finish(std::string name, const OpCall* call = nullptr);

  struct Slot {
    dnnl::memory memory;
    bool is_operand = false;
    std::size_t operand = 0;
    std::int64_t scratch_offset = 0;
    void* address = nullptr;  // last set
  };
  struct Tile {
    std::size_t operand = 0;
    std::int64_t scratch_offset = 0;
    std::int64_t bytes = 0;
    std::int64_t times = 1;
  };
  struct Stage {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };

 private:
  struct Copy {
    int from = 0;
    int to = 0;
  };

  int add_slot(const dnnl::memory::desc& desc, Slot slot);

  std::vector<Slot> slots_;
  std::vector<Tile> tiles_;
  std::vector<Stage> stages_;
  std::vector<Copy> last_;  // the reorders of outputs
  int copies_ = 0;          // operands that don't lie as the primitives want
  bool may_lose_nan_ = false;
  std::int64_t scratch_bytes_ = 0;
  int threads_;
  int device_threads_;
};

/// A kernel of one primitive that reads operand 0 and writes operand 1 (a call of one input).
template <class Primitive>
std::unique_ptr<Kernel> unary_kernel(const typename Primitive::primitive_desc& desc,
                                     std::string_view name, int threads,
                                     const KernelContext& context) {
  KernelBuilder builder(threads, context.threads);
  builder.add(Primitive(desc), desc,
              {{DNNL_ARG_SRC, builder.operand(0, desc.src_desc())},
               {DNNL_ARG_DST, builder.operand(1, desc.dst_desc())}});
  return builder.finish("onednn:" + std::string(name) + ":" + implementation_of(desc));
}

/// Calls `make(call, context)`, which returns a kernel or throws Refused, dnnl::error or Error.
template <auto make>
KernelOffer offer_with(const OpCall& call, const KernelContext& context);

namespace detail {
KernelOffer offer(std::unique_ptr<Kernel> (*make)(const OpCall&, const KernelContext&),
                  const OpCall& call, const KernelContext& context);
}  // namespace detail

template <auto make>
KernelOffer offer_with(const OpCall& call, const KernelContext& context) {
  return detail::offer(make, call, context);
}

}  // namespace tilemesh::cpu::onednn
