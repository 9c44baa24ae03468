#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "tilemesh/runtime/executable.hpp"

namespace tilemesh {

/// What submit does with an argument that isn't in the wanted form.
enum class Conversion {
  convert,  ///< converts it (host data is uploaded)
  count,    ///< the same; the mesh's counters tell (they always do)
  forbid,   ///< throws conversion_forbidden, saying what would be needed; uploads of activations
            ///< from the host included
};

struct SubmitOptions {
  Conversion conversion = Conversion::convert;
};

/// One argument: a tensor, or one given away.
struct Argument {
  Tensor tensor;
  bool donated = false;
  Argument(Tensor value) : tensor(std::move(value)) {}                          // NOLINT
  Argument(Donation value) : tensor(std::move(value.tensor)), donated(true) {}  // NOLINT
};

/// Enqueues the program and returns at once: one tensor per output, each with its ready event, each
/// where the program leaves it. Throws invalid_argument (with program, input, both values) for
/// arguments that don't fit. State inputs must be donated.
std::vector<Tensor> submit(const Executable& executable, std::span<const Argument> arguments,
                           const SubmitOptions& options = {});
std::vector<Tensor> submit(const Executable& executable, std::initializer_list<Argument> arguments,
                           const SubmitOptions& options = {});

/// The blocking form, and the fast one: on an idle mesh the program runs on the calling thread.
/// Throws what failed.
std::vector<Tensor> run(const Executable& executable, std::span<const Argument> arguments,
                        const SubmitOptions& options = {});
std::vector<Tensor> run(const Executable& executable, std::initializer_list<Argument> arguments,
                        const SubmitOptions& options = {});
/// The same into outputs of an earlier run (or made by `empty`), in the specs of the outputs; an
/// output that takes over a state input is replaced by the donated handle. In steady state on one
/// device it allocates nothing on the heap.
void run_into(const Executable& executable, std::span<const Argument> arguments,
              std::span<Tensor> outputs, const SubmitOptions& options = {});

}  // namespace tilemesh
