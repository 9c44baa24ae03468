#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/program/binary.hpp"
#include "tilemesh/tensor/transfer.hpp"

namespace tilemesh {

namespace detail {
struct ExecutableState;
}  // namespace detail

/// What an argument of an executable wants: the answer that to_layout, empty and zeros take.
struct ArgumentInfo {
  std::string program;
  std::string name;
  int index = 0;
  InputKind kind = InputKind::activation;
  TensorSpec spec;
  Mesh mesh;
};

/// A program prepared for one mesh: kernels chosen, constants resident, workspace held. Immutable
/// and thread-safe; a cheap handle; keeps the devices open.
class Executable {
 public:
  const std::string& name() const;
  const Program& program() const;
  const Mesh& mesh() const;
  std::size_t input_count() const;
  std::size_t output_count() const;
  /// Throws not_found with the names there are.
  const ArgumentInfo& input(std::string_view name) const;
  const ArgumentInfo& input(int index) const;
  const ArgumentInfo& output(std::string_view name) const;
  const ArgumentInfo& output(int index) const;
  /// The implementation of each op on device 0.
  std::vector<std::string> implementations() const;

  explicit Executable(std::shared_ptr<detail::ExecutableState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::ExecutableState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::ExecutableState> state_;
};

/// Prepares a program: throws mismatch if the mesh's shape isn't the program's, out_of_memory if
/// workspace or constants don't fit. Constants equal in content are resident once per mesh.
Executable prepare(const Mesh& mesh, const BoundProgram& program);

/// The tensor in exactly the layout, dtype, placement and space that the argument wants.
Tensor to_layout(const Tensor& tensor, const ArgumentInfo& argument);
Tensor to_layout(const Tensor& tensor, const Mesh& mesh, const BoundProgram& program,
                 int input_index);
/// What to_layout would do with a tensor of this spec.
ConversionPlan plan(const TensorSpec& from, const ArgumentInfo& argument);
Tensor empty(const ArgumentInfo& argument);
Tensor zeros(const ArgumentInfo& argument);

}  // namespace tilemesh
