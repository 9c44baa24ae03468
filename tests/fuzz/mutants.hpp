#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "execute.hpp"

namespace tilemesh::fuzz {

/// A file that was changed, and how, for messages.
struct Mutant {
  std::string bytes;
  std::string text;
};

/// Makes mutants by their numbers and tries them. Equal seeds and numbers give equal mutants.
class Mutants {
 public:
  Mutants() = default;
  Mutants(const Mutants&) = delete;
  Mutants& operator=(const Mutants&) = delete;
  virtual ~Mutants() = default;

  virtual Mutant make(std::uint64_t number) = 0;
  /// Reads the file, and runs what it accepts. Gives how far it came; `message` says why no
  /// further.
  virtual Outcome run(const Mutant& mutant, std::uint64_t number, std::string& message) = 0;
  virtual const char* suffix() const = 0;
};

/// Of .tmb files, from programs of one op each (src/ops/op_cases.cpp) and random ones.
std::unique_ptr<Mutants> program_mutants(std::uint64_t seed);
/// Of .onnx files, from those of a folder.
std::unique_ptr<Mutants> onnx_mutants(std::uint64_t seed, const std::filesystem::path& seeds);

}  // namespace tilemesh::fuzz
