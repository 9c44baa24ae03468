#include "wav.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace examples {

namespace {

/// A little-endian number of T's size at `at`; throws if the file ends before.
template <class T>
T number_at(const std::string& bytes, std::size_t at, const std::string& path) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) {
    throw std::runtime_error(path + ": the WAV file is cut short");
  }
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

std::vector<float> read_wav(const std::string& path, int rate) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error(path + ": can't be opened");
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 12 || bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0) {
    throw std::runtime_error(path + ": is no WAV file");
  }
  bool format_seen = false;
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::string id = bytes.substr(at, 4);
    const std::size_t size = number_at<std::uint32_t>(bytes, at + 4, path);
    at += 8;
    if (id == "fmt ") {
      const int format = number_at<std::uint16_t>(bytes, at, path);
      const int channels = number_at<std::uint16_t>(bytes, at + 2, path);
      const auto found = static_cast<int>(number_at<std::uint32_t>(bytes, at + 4, path));
      const int bits = number_at<std::uint16_t>(bytes, at + 14, path);
      if (format != 1 || channels != 1 || bits != 16 || found != rate) {
        throw std::runtime_error(path + ": wants mono 16-bit PCM at " + std::to_string(rate) +
                                 " Hz, got format " + std::to_string(format) + ", " +
                                 std::to_string(channels) + " channels, " + std::to_string(bits) +
                                 " bits at " + std::to_string(found) + " Hz");
      }
      format_seen = true;
    } else if (id == "data" && format_seen) {
      const std::size_t count = std::min(size, bytes.size() - at) / 2;
      std::vector<float> samples(count);
      for (std::size_t i = 0; i < count; ++i) {
        samples[i] =
            static_cast<float>(number_at<std::int16_t>(bytes, at + 2 * i, path)) / 32768.0F;
      }
      return samples;
    }
    at += size + size % 2;
  }
  throw std::runtime_error(path + ": has no samples");
}

}  // namespace examples
