#include "tilemesh/program/binary.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/base/input_file.hpp"
#include "tilemesh/base/output_file.hpp"

#include "codec.hpp"
#include "header.hpp"

namespace tilemesh {

struct Binary::State {
  TableContents table;
  std::span<const std::byte> constants;  // within one of the two owners
  MappedBytes mapped;
  std::vector<std::byte> bytes;
};

namespace {

void verify_all(std::vector<Program>& programs, std::uint64_t constants_bytes) {
  if (programs.empty()) {
    throw Error(ErrorCode::invalid_file, "the binary holds no program");
  }
  std::set<std::string> names;
  for (Program& program : programs) {
    program = verify(std::move(program), constants_bytes);
    if (!names.insert(program.name).second) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("two programs are named \"{}\"", program.name));
    }
  }
}

/// Decodes and verifies; `between` is what lies between header and constants.
TableContents read_table(const FileHeader& header, std::span<const std::byte> between) {
  TableContents table = decode_table(check_table(header, between));
  verify_all(table.programs, header.constants_bytes);
  return table;
}

/// The pieces of a file that lie before the constants.
struct Prefix {
  std::array<std::byte, kHeaderBytes> header;
  std::vector<std::byte> table;  // with the padding up to the constants
};

Prefix make_prefix(const TableContents& contents, std::uint64_t constants_bytes) {
  Prefix result;
  result.table = encode_table(contents.programs, contents.target, contents.metadata);
  const FileHeader header = make_header(result.table, constants_bytes);
  result.header = to_bytes(header);
  result.table.resize(header.constants_offset - kHeaderBytes);
  return result;
}

}  // namespace

Binary::Binary(std::shared_ptr<const State> state) : state_(std::move(state)) {}

Binary Binary::load(const std::filesystem::path& path) {
  try {
    const InputFile file(path);
    const auto start = file.bytes(0, std::min(file.size(), kHeaderBytes));
    const FileHeader header = parse_header(start, file.size());
    auto state = std::make_shared<State>();
    // A copy: what was verified must not change, whatever others do with the file. Constants are
    // data alone and stay where they are.
    state->table =
        read_table(header, file.bytes(kHeaderBytes, header.constants_offset - kHeaderBytes));
    state->mapped = MappedBytes(file, header.constants_offset, header.constants_bytes);
    state->constants = state->mapped.bytes();
    return Binary(std::move(state));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) {
      throw;  // names the path already
    }
    throw error.in(fmt::format("\"{}\"", path.string()));
  }
}

Binary Binary::from_bytes(std::vector<std::byte> bytes) {
  auto state = std::make_shared<State>();
  state->bytes = std::move(bytes);
  const std::span<const std::byte> file = state->bytes;
  const FileHeader header = parse_header(file, file.size());
  state->table =
      read_table(header, file.subspan(kHeaderBytes, header.constants_offset - kHeaderBytes));
  state->constants = file.subspan(header.constants_offset, header.constants_bytes);
  return Binary(std::move(state));
}

Binary Binary::from_contents(BinaryContents contents) {
  verify_all(contents.programs, contents.constants.size());
  auto state = std::make_shared<State>();
  state->table = {std::move(contents.programs), std::move(contents.target),
                  std::move(contents.metadata)};
  state->bytes = std::move(contents.constants);
  state->constants = state->bytes;
  return Binary(std::move(state));
}

std::size_t Binary::program_count() const {
  return programs().size();
}

std::vector<std::string> Binary::program_names() const {
  std::vector<std::string> names;
  for (const Program& program : programs()) {
    names.push_back(program.name);
  }
  return names;
}

BoundProgram Binary::program(std::string_view name) const {
  const std::vector<Program>& all = programs();
  if (name.empty() && all.size() == 1) {
    return {*this, 0};
  }
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Program& program) { return program.name == name; });
  if (found != all.end()) {
    return {*this, static_cast<std::size_t>(found - all.begin())};
  }
  const std::string there = fmt::format("\"{}\"", fmt::join(program_names(), "\", \""));
  if (name.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("the binary holds {} programs: name one of {}", all.size(), there));
  }
  throw Error(ErrorCode::not_found, fmt::format("the binary holds no program \"{}\"; it has {}{}",
                                                name, there, did_you_mean(name, program_names())));
}

const std::vector<Program>& Binary::programs() const {
  return state_->table.programs;
}
std::span<const std::byte> Binary::constants() const {
  return state_->constants;
}
const TargetInfo& Binary::target() const {
  return state_->table.target;
}
const std::map<std::string, std::string>& Binary::metadata() const {
  return state_->table.metadata;
}

void Binary::save(const std::filesystem::path& path) const {
  const Prefix prefix = make_prefix(state_->table, constants().size());
  const std::array<std::span<const std::byte>, 3> pieces = {prefix.header, prefix.table,
                                                            constants()};
  write_file(path, pieces);
}

std::vector<std::byte> Binary::to_bytes() const {
  const Prefix prefix = make_prefix(state_->table, constants().size());
  std::vector<std::byte> bytes(kHeaderBytes + prefix.table.size() + constants().size());
  auto end = std::copy(prefix.header.begin(), prefix.header.end(), bytes.begin());
  end = std::copy(prefix.table.begin(), prefix.table.end(), end);
  std::copy(constants().begin(), constants().end(), end);
  return bytes;
}

BoundProgram::BoundProgram(Binary binary, std::size_t index)
    : binary_(std::move(binary)), index_(index) {
  if (index_ >= binary_.program_count()) {
    throw Error(ErrorCode::not_found, fmt::format("the binary holds {} programs, there is no {}",
                                                  binary_.program_count(), index_));
  }
}

const Program& BoundProgram::operator*() const {
  return binary_.programs()[index_];
}
const Program* BoundProgram::operator->() const {
  return &binary_.programs()[index_];
}

std::span<const std::byte> BoundProgram::constant(std::size_t i) const {
  const std::vector<ProgramConstant>& constants = (*this)->constants;
  if (i >= constants.size()) {
    throw Error(ErrorCode::not_found, fmt::format("program \"{}\" has {} constants, there is no {}",
                                                  (*this)->name, constants.size(), i));
  }
  return binary_.constants().subspan(constants[i].offset, constants[i].bytes);
}

}  // namespace tilemesh
