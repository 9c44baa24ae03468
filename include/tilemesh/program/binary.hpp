#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/ops/target.hpp"
#include "tilemesh/program/program.hpp"

namespace tilemesh {

/// What a binary is written from.
struct BinaryContents {
  std::vector<Program> programs;
  std::vector<std::byte> constants;  ///< the section that ProgramConstant::offset points into
  TargetInfo target;                 ///< that it was compiled for
  std::map<std::string, std::string>
      metadata;  ///< of the source models: "character", "license", ...
};

class BoundProgram;

/// A file of programs and constants, verified when made; immutable, a cheap handle to copy,
/// thread-safe. Constants stay in the mapped file until someone reads them.
class Binary {
 public:
  /// Maps and verifies a file: first its structure, then its meaning. Throws io if it can't be
  /// read, invalid_file (naming the file and what is broken) otherwise; a newer major version is
  /// unsupported. Costs nothing per byte of constants.
  static Binary load(const std::filesystem::path& path);
  /// The same from bytes in memory.
  static Binary from_bytes(std::vector<std::byte> bytes);
  /// Without a file; verifies the meaning.
  static Binary from_contents(BinaryContents contents);

  std::size_t program_count() const;
  std::vector<std::string> program_names() const;
  /// The only program if `name` is empty and there is just one. Throws not_found listing the names.
  BoundProgram program(std::string_view name = {}) const;

  const std::vector<Program>& programs() const;
  std::span<const std::byte> constants() const;
  const TargetInfo& target() const;
  const std::map<std::string, std::string>& metadata() const;

  /// Writes the file through a temporary one beside it, so that no half-written file is left.
  void save(const std::filesystem::path& path) const;
  std::vector<std::byte> to_bytes() const;

 private:
  struct State;
  explicit Binary(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// A program together with the binary that holds its constants: what prepare takes.
class BoundProgram {
 public:
  BoundProgram(Binary binary, std::size_t index);
  const Program& operator*() const;
  const Program* operator->() const;
  const Binary& binary() const { return binary_; }
  /// The bytes of constant `i`.
  std::span<const std::byte> constant(std::size_t i) const;

 private:
  Binary binary_;
  std::size_t index_;
};

}  // namespace tilemesh
