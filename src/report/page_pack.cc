#include "report/page_pack.h"

#include <zlib.h>

#include <cstdint>

#include "base/check.h"

namespace rouse::report {
namespace {

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  const auto byte = [&](size_t at) {
    return at < bytes.size() ? static_cast<uint32_t>(static_cast<unsigned char>(bytes[at])) : 0U;
  };
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const uint32_t three = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
    out += kLetters[three >> 18 & 63];
    out += kLetters[three >> 12 & 63];
    out += at + 1 < bytes.size() ? kLetters[three >> 6 & 63] : '=';
    out += at + 2 < bytes.size() ? kLetters[three & 63] : '=';
  }
  return out;
}

}  // namespace

std::string GzipBase64(std::string_view text) {
  constexpr int kGzip = 15 + 16;  // the largest window, with gzip's header
  constexpr int kMemoryLevel = 8;
  // The fastest level: attempts repeat each other so much that the best one saves little more.
  z_stream stream{};
  CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY) ==
        Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  // zlib's own type of input is not const, but it writes nothing there.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  CHECK(deflateEnd(&stream) == Z_OK);
  return Base64(packed);
}

}  // namespace rouse::report
