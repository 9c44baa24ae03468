#pragma once

#include <string>
#include <string_view>

namespace tilemesh {

/// `text` as it may be shown on a terminal, whatever a file put into it: bytes that are no UTF-8
/// and control characters as \xNN, characters that steer (C1, line separators) or that aren't seen
/// and turn others around (bidi, zero width) as \u{NNNN}. Ends of lines stay.
std::string printable(std::string_view text);

/// The same with ends of lines written as \x0a: for names, which stand within a line.
std::string printable_line(std::string_view text);

/// The same with what follows an end of line moved in by two spaces, so that no text within can
/// pass for a line of its own.
std::string printable_block(std::string_view text);

}  // namespace tilemesh
