#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/program/program.hpp"

namespace tilemesh::cli {

/// Values of a program that have this name, in order; an output's name is its value's too. A value
/// that lies in several ways is there several times.
std::vector<std::uint32_t> values_named(const Program& program, const std::string& name);
/// The names that values_named knows.
std::vector<std::string> value_names(const Program& program);

/// Every value by its full name, with type, placement, layout, and why it lies so.
std::string values_text(const Program& program);
/// What a value is, why it lies so, what makes it and what reads it, in sentences.
std::string explain_text(const Program& program, std::uint32_t value);

/// [{"name", "dtype", ..., "reason", "storage", "made_by", "read_by"}] of these values; the last
/// two are numbers of ops; a value that both sides of a branch make has several makers.
nlohmann::ordered_json values_json(const Program& program,
                                   const std::vector<std::uint32_t>& values);

}  // namespace tilemesh::cli
