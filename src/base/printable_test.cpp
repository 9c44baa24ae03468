#include "tilemesh/base/printable.hpp"

#include <gtest/gtest.h>

namespace tilemesh {
namespace {

TEST(Printable, LetsWordsOfEveryLanguageThrough) {
  for (const char* text : {"", "encoder/layer.0", "Größe", "重み", "вес", "w\\x1b", "😀"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_line(text), text);
  }
}

TEST(Printable, ShowsControlCharactersAsBytes) {
  EXPECT_EQ(printable("a\x1b[2Jb\tü\n"), "a\\x1b[2Jb\\x09ü\n");
  EXPECT_EQ(printable(std::string_view("\0\x7f\r", 3)), "\\x00\\x7f\\x0d");
  EXPECT_EQ(printable("\u009b31m\u0085"), "\\u{009b}31m\\u{0085}");
}

TEST(Printable, ShowsWhatTurnsTextAround) {
  EXPECT_EQ(printable("v\u202egnp.exe"), "v\\u{202e}gnp.exe");
  for (const char* mark : {"\u061c", "\u200b", "\u200e", "\u200f", "\u202a", "\u2028", "\u2066",
                           "\u2069", "\ufeff", "\u00ad", "\U000e0041"}) {
    EXPECT_EQ(printable(mark).substr(0, 3), "\\u{") << mark;
  }
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(printable("w\x9b"
                      "31m"),
            "w\\x9b31m");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut short
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");                    // an overlong end of line
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past the last
  EXPECT_EQ(printable("\xe2\x80"
                      "a"),
            "\\xe2\\x80"
            "a");
}

TEST(Printable, ALineStaysOneAndABlockStaysTogether) {
  EXPECT_EQ(printable_line("y\ntilemesh: ok\n"), "y\\x0atilemesh: ok\\x0a");
  EXPECT_EQ(printable_block("y\ntilemesh: ok"), "y\n  tilemesh: ok");
}

}  // namespace
}  // namespace tilemesh
