// Reads hostile binaries. The input is the table of a file; the header, which would refuse all but
// intact ones by its checksum, is made for it. Nothing but Error may come out, and what is accepted
// must be written and read again unchanged.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tilemesh/base/error.hpp"
#include "tilemesh/program/binary.hpp"

#include "program/header.hpp"

namespace {

constexpr std::size_t kConstantsBytes = 1024;

std::vector<std::byte> make_file(std::span<const std::byte> table) {
  using namespace tilemesh;
  const FileHeader header = make_header(table, kConstantsBytes);
  const std::array<std::byte, kHeaderBytes> first = to_bytes(header);
  std::vector<std::byte> file(header.constants_offset + kConstantsBytes);
  std::copy(first.begin(), first.end(), file.begin());
  std::copy(table.begin(), table.end(), file.begin() + kHeaderBytes);
  return file;
}

/// An internal error is a bug that a check of ours has found: as bad as a crash.
void fail_if_internal(const tilemesh::Error& error) {
  if (error.code() == tilemesh::ErrorCode::internal) {
    std::abort();
  }
}

void read_hostile(std::vector<std::byte> bytes) {
  using namespace tilemesh;
  try {
    const Binary binary = Binary::from_bytes(std::move(bytes));
    const Binary again = Binary::from_bytes(binary.to_bytes());
    if (binary.program_names() != again.program_names()) {
      std::abort();
    }
    for (const BoundProgram program = binary.program(binary.program_names()[0]);
         const ProgramOp& op : program->ops) {
      if (op.kind == ProgramOp::Kind::call) {
        shard_call(*program, static_cast<std::size_t>(&op - program->ops.data()));
      }
    }
  } catch (const Error& error) {
    fail_if_internal(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  read_hostile({input.begin(), input.end()});
  read_hostile(make_file(input));
  return 0;
}
