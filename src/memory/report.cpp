#include "tilemesh/memory/report.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

namespace tilemesh {
namespace {

const SpaceReport* find_space(const MemoryReport& report, Space space) {
  const auto found = std::find_if(report.spaces.begin(), report.spaces.end(),
                                  [&](const SpaceReport& s) { return s.space == space; });
  return found == report.spaces.end() ? nullptr : &*found;
}

std::vector<MemoryHolder> difference(const std::vector<MemoryHolder>& after,
                                     const std::vector<MemoryHolder>& before) {
  std::map<std::string_view, MemoryHolder> changes;
  const auto add = [&](const MemoryHolder& holder, std::int64_t sign) {
    MemoryHolder& change = changes.try_emplace(holder.label).first->second;
    change.bytes += sign * holder.bytes;
    change.count += sign * holder.count;
  };
  for (const MemoryHolder& holder : after)
    add(holder, 1);
  for (const MemoryHolder& holder : before)
    add(holder, -1);
  std::vector<MemoryHolder> result;
  for (auto& [label, change] : changes) {
    if (change.bytes == 0 && change.count == 0) continue;
    change.label = label;
    result.push_back(std::move(change));
  }
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return std::abs(a.bytes) > std::abs(b.bytes);
  });
  return result;
}

SpaceReport difference(const SpaceReport& after, const SpaceReport& before) {
  return {.space = after.space,
          .total_bytes = after.total_bytes - before.total_bytes,
          .used_bytes = after.used_bytes - before.used_bytes,
          .free_bytes = after.free_bytes - before.free_bytes,
          .largest_hole_bytes = after.largest_hole_bytes - before.largest_hole_bytes,
          .peak_bytes = after.peak_bytes - before.peak_bytes,
          .holders = difference(after.holders, before.holders)};
}

std::string change_text(std::int64_t bytes) {
  return (bytes >= 0 ? "+" : "") + to_bytes_text(bytes);
}

void print(const SpaceReport& space, bool is_difference, std::string& text) {
  auto out = std::back_inserter(text);
  if (is_difference) {
    fmt::format_to(out, "{}: {} used, {} peak, {} largest hole\n", to_string(space.space),
                   change_text(space.used_bytes), change_text(space.peak_bytes),
                   change_text(space.largest_hole_bytes));
  } else {
    fmt::format_to(out, "{}: {} of {} used, peak {}, largest hole {}\n", to_string(space.space),
                   to_bytes_text(space.used_bytes), to_bytes_text(space.total_bytes),
                   to_bytes_text(space.peak_bytes), to_bytes_text(space.largest_hole_bytes));
  }
  for (const MemoryHolder& holder : space.holders) {
    const std::string bytes =
        is_difference ? change_text(holder.bytes) : to_bytes_text(holder.bytes);
    const std::string count =
        is_difference ? fmt::format("{:+}", holder.count) : fmt::format("{}", holder.count);
    fmt::format_to(out, "  {:>12} in {:>4}  {}\n", bytes, count, holder.label);
  }
}

}  // namespace

std::string to_bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.1f}", value);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, kUnits[unit]);
}

std::string MemoryReport::to_string() const {
  std::string text;
  for (const SpaceReport& space : spaces)
    print(space, is_difference, text);
  return text;
}

std::string leak_text(const MemoryReport& at_close) {
  std::string text;
  for (const SpaceReport& space : at_close.spaces) {
    if (space.used_bytes == 0) continue;
    fmt::format_to(std::back_inserter(text), "leak: {} of {} are held as the devices close\n",
                   to_bytes_text(space.used_bytes), to_string(space.space));
    for (const MemoryHolder& holder : space.holders) {
      fmt::format_to(std::back_inserter(text), "  {:>12} in {:>4}  {}\n",
                     to_bytes_text(holder.bytes), holder.count, holder.label);
    }
  }
  return text;
}

MemoryReport operator-(const MemoryReport& after, const MemoryReport& before) {
  MemoryReport result;
  result.is_difference = true;
  for (const SpaceReport& space : after.spaces) {
    const SpaceReport* earlier = find_space(before, space.space);
    result.spaces.push_back(difference(space, earlier ? *earlier : SpaceReport{}));
  }
  for (const SpaceReport& space : before.spaces) {
    if (find_space(after, space.space) != nullptr) continue;
    SpaceReport gone;
    gone.space = space.space;
    result.spaces.push_back(difference(gone, space));
  }
  return result;
}

}  // namespace tilemesh
