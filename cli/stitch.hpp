#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/program/binary.hpp"

namespace tilemesh::cli {

/// One end of a stitch: an output, or for weights that are there already an input, of a program.
struct StitchEnd {
  std::string file;
  std::string program;
  std::string name;
  std::string kind;  ///< "output", "activation", "parameter", "state"
  TensorSpec spec;

  /// a.tmb:main.x
  std::string to_string() const { return file + ":" + program + "." + name; }
};

/// The part of "FILE:PROGRAM.NAME" that is the file: up to the first colon behind which one exists,
/// else up to the first colon. Throws UsageError where there is no colon or nothing behind it.
std::string file_of(const std::string& text);
/// The end that `text` names: "PROGRAM.NAME", or "NAME" if the binary has one program. An output is
/// looked for first, unless `inputs_only`. Throws UsageError with what there is.
StitchEnd find_end(const Binary& binary, const std::string& text, bool inputs_only);

/// What feeding one into the other would do.
struct Stitch {
  struct Aspect {
    std::string what;  ///< "shape", "dtype", "mesh", "placement", "layout", "space"
    std::string from;
    std::string to;
    bool same() const { return from == to; }
  };
  StitchEnd from;
  StitchEnd to;
  std::vector<Aspect> aspects;
  std::string refusal;              ///< empty, or why it can't be
  std::vector<std::string> steps;   ///< one a copy, in order
  std::int64_t bytes_written = 0;   ///< on all devices together
  std::int64_t bytes_received = 0;  ///< by a device from others
};
Stitch plan_stitch(const StitchEnd& from, const StitchEnd& to);

std::string to_string(const Stitch& stitch);
nlohmann::ordered_json to_json(const Stitch& stitch);

}  // namespace tilemesh::cli
