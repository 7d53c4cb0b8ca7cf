// The page-cache layer on the real kernel: os/page_cache proves and drops, loader fills.
#include <algorithm>
#include <utility>

#include "lab/states.h"
#include "loader/reader.h"
#include "os/page_cache.h"

namespace rouse::lab {
namespace {

// As many as a picture of a file needs.
constexpr int kStripParts = 96;
constexpr int64_t kFewPages = 5;  // of about 500 that a sample looks at

class MappedLock : public PageLock {
 public:
  MappedLock(os::MappedFile mapping, int64_t locked_bytes)
      : mapping_(std::move(mapping)), locked_bytes_(locked_bytes) {}
  int64_t locked_bytes() const override { return locked_bytes_; }

 private:
  os::MappedFile mapping_;
  int64_t locked_bytes_;
};

// A sample brings the pages that it looks at in for a moment, and another one, such as a server
// takes for its own report, may meet a few of them. A second look, counted together with the first,
// tells such pages from ones that stay.
Result<std::vector<os::Residency>> ReadStrip(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<os::Residency> strip, os::ReadResidencyParts(path, kStripParts));
  const os::Residency whole = os::SumOf(strip);
  if (whole.Exact() || whole.sampled_resident_pages == 0 ||
      whole.sampled_resident_pages > kFewPages) {
    return strip;
  }
  ASSIGN_OR_RETURN(const std::vector<os::Residency> again,
                   os::ReadResidencyParts(path, kStripParts));
  for (size_t i = 0; i < std::min(strip.size(), again.size()); ++i) {
    strip[i] = os::Pooled(strip[i], again[i]);
  }
  return strip;
}

class KernelPageCache : public PageCache {
 public:
  Result<Share> Read(const std::string& path, double fraction) override {
    ASSIGN_OR_RETURN(const std::vector<os::Residency> strip, ReadStrip(path));
    const os::Residency whole = os::SumOf(strip);
    Share share{.leading_ratio = whole.Ratio(),
                .rest_ratio = 0,
                .ratio = whole.Ratio(),
                .file_bytes = whole.file_bytes,
                .proof = whole.proof};
    if (!whole.Exact()) share.bounds = {whole.Bounds().low, whole.Bounds().high};
    for (const os::Residency& part : strip) share.parts.push_back(part.Ratio());
    if (fraction <= 0 || fraction >= 1) return share;
    const auto leading_bytes =
        static_cast<int64_t>(fraction * static_cast<double>(whole.file_bytes));
    const std::vector<os::ByteRange> ranges = {
        {.offset = 0, .bytes = leading_bytes},
        {.offset = leading_bytes, .bytes = whole.file_bytes - leading_bytes}};
    ASSIGN_OR_RETURN(const std::vector<os::Residency> parts, os::ReadResidencyRanges(path, ranges));
    share.leading_ratio = parts.at(0).Ratio();
    share.rest_ratio = parts.at(1).Ratio();
    return share;
  }

  Result<std::string> Evict(const std::string& path) override {
    ASSIGN_OR_RETURN(const os::EvictReport report, os::EvictFile(path));
    return report.WhyNot();
  }

  Status Warm(const std::string& path, double fraction) override {
    const Result<loader::WarmReport> report = loader::WarmFile(path, fraction, {});
    return report.ok() ? Status() : Status(report.error());
  }

  std::vector<int> Mappers(const std::string& path) override {
    std::vector<int> pids;
    const Result<os::Mappers> found = os::FindMappers(os::ProcRoot::Real(), path);
    if (!found.ok()) return pids;
    for (const os::Mapper& mapper : found->mappers) pids.push_back(mapper.pid);
    return pids;
  }

  bool MayKnowOf(int pid) override { return os::ProcRoot::Real().ReadOf(pid, "maps").ok(); }

  Result<std::unique_ptr<PageLock>> Lock(const std::string& path) override {
    RETURN_IF_ERROR(Warm(path, 1.0));
    ASSIGN_OR_RETURN(os::MappedFile mapping, os::MappedFile::Map(path));
    ASSIGN_OR_RETURN(const int64_t locked, os::LockRange(mapping.data(), mapping.bytes()));
    return std::unique_ptr<PageLock>(std::make_unique<MappedLock>(std::move(mapping), locked));
  }
};

}  // namespace

PageCache& RealPageCache() {
  static KernelPageCache page_cache;
  return page_cache;
}

}  // namespace rouse::lab
