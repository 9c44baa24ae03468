#pragma once

#include <string>
#include <vector>

namespace examples {

/// The samples of a mono 16-bit PCM WAV file as floats in [-1, 1). Throws std::runtime_error,
/// naming the file, for any other kind of file or another rate than `rate` samples a second.
std::vector<float> read_wav(const std::string& path, int rate);

}  // namespace examples
