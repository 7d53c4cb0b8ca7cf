#include "os/page_cache_probe.h"

#include <algorithm>

#include "os/page_cache_internal.h"

namespace rouse::os {
namespace {

using internal::kPageBytes;

constexpr int64_t kPagesLookedAt = 8;

char Digit(int64_t resident, int64_t pages) {
  if (resident <= 0) return '0';
  if (resident >= pages) return '9';
  // Nearest of 1 to 8: the ends are kept for none and all.
  const int64_t step = std::clamp<int64_t>((resident * 9 + pages / 2) / pages, 1, 8);
  return static_cast<char>('0' + step);
}

}  // namespace

Result<PageCacheProbe> PageCacheProbe::Open(const std::string& path, int parts) {
  ASSIGN_OR_RETURN(internal::OpenedFile file, internal::OpenRegularFile(path));
  const int64_t pages = (file.facts.st_size + kPageBytes - 1) / kPageBytes;
  if (pages == 0) return Error(ErrorCode::kUnsupported, path + " is empty");
  const int64_t count = std::clamp<int64_t>(parts, 1, pages);
  std::vector<Spot> spots;
  for (int64_t part = 0; part < count; ++part) {
    const int64_t begin = part * pages / count;
    const int64_t end = (part + 1) * pages / count;
    const int64_t looked_at = std::min(kPagesLookedAt, end - begin);
    const int64_t first = begin + (end - begin - looked_at) / 2;
    spots.push_back({first * kPageBytes, looked_at * kPageBytes, looked_at});
  }
  PageCacheProbe probe(std::move(file.fd), std::move(spots));
  RETURN_IF_ERROR(probe.Read());
  return probe;
}

Result<std::string> PageCacheProbe::Read() const {
  std::string digits;
  digits.reserve(spots_.size());
  for (const Spot& spot : spots_) {
    ASSIGN_OR_RETURN(const int64_t resident,
                     internal::CachedPages(fd_.get(), {spot.offset, spot.bytes}));
    digits += Digit(resident, spot.pages);
  }
  return digits;
}

}  // namespace rouse::os
