#include "verify.hpp"

#include <fmt/format.h>

namespace tilemesh {

void broken(const std::string& what) {
  throw Error(ErrorCode::invalid_file, what);
}

std::string describe(const Program& program, std::uint32_t value) {
  return fmt::format("value {} \"{}\"", value, program.values.at(value).name);
}

std::string describe_op(const Program& program, std::size_t op) {
  const ProgramOp& described = program.ops.at(op);
  return fmt::format("op {} \"{}\" ({})", op, described.name, described.op);
}

Footprint range_of(const ProgramCheck& check, std::uint32_t value) {
  const ProgramValue& held = check.program.values[value];
  const Storage& storage = held.storage;
  // Workspaces are told apart by their space, everything else by its index.
  const std::uint64_t index = storage.kind == Storage::Kind::workspace
                                  ? static_cast<std::uint64_t>(held.spec.space)
                                  : storage.index;
  const std::uint64_t buffer = static_cast<std::uint64_t>(storage.kind) << 32 | index;
  const std::int64_t bytes = storage.kind == Storage::Kind::none ? 0 : check.value_bytes[value];
  return {buffer, storage.offset, storage.offset + bytes, value};
}

Program verify(Program program, std::uint64_t constants_bytes) {
  try {
    ProgramCheck check{program, constants_bytes, {}, {}};
    check_values(check);
    canonicalise_ops(program);
    check_ops(check);
    check_loops(check);
    check_flow(check);
    return program;
  } catch (const Error& error) {
    // What shapes and ops take for their caller's mistake is here the file's.
    const ErrorCode code =
        error.code() == ErrorCode::invalid_argument ? ErrorCode::invalid_file : error.code();
    throw Error(code, fmt::format("program \"{}\": {}", program.name, error.what()));
  }
}

}  // namespace tilemesh
