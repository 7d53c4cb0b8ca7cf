#include "server/weights_reader.h"

#include <sys/stat.h>

#include <cmath>
#include <utility>

#include "server/residency.h"

namespace rouse::server {
namespace {

// A page here and there is missing of every file.
constexpr double kWarmRatio = 0.99;
// Less than this tells nothing of a disk.
constexpr int64_t kTellingBytes = int64_t{64} << 20;

loader::MappedPart PartOf(const engine::FileMapping& mapping) {
  return {mapping.path, mapping.address, mapping.file_offset, mapping.bytes};
}

bool HasEnded(const loader::Prefetcher& prefetcher) {
  return prefetcher.Report().end != loader::PrefetchEnd::kRunning;
}

}  // namespace

WeightsReader::WeightsReader(std::vector<std::string> parts, bool enabled)
    : parts_(std::move(parts)), enabled_(enabled) {}

// A reader that still ran could call back into what is being destroyed.
WeightsReader::~WeightsReader() { End(); }

void WeightsReader::BeginEarly() {
  const std::lock_guard lock(mutex_);
  BeginLocked(/*early=*/true);
}

void WeightsReader::Begin() {
  const std::lock_guard lock(mutex_);
  BeginLocked(/*early=*/false);
}

void WeightsReader::EndEarly() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(early_, false)) return;
  prefetcher_->Cancel();
  cancelled_ = true;
}

void WeightsReader::BeginLocked(bool early) {
  if (!enabled_) return;
  std::vector<loader::MappedPart> mappings;
  if (!early) {
    for (const Guarded& one : mappings_) mappings.push_back(PartOf(one.mapping));
  }
  std::erase_if(retired_, [](const auto& one) { return HasEnded(*one); });
  if (prefetcher_ != nullptr) {
    if (!cancelled_ && !HasEnded(*prefetcher_)) {
      if (early_ && !early) {
        prefetcher_->Attach(std::move(mappings));
        early_ = false;
      }
      return;
    }
    earlier_read_bytes_ += prefetcher_->Report().read_bytes;
    if (!HasEnded(*prefetcher_)) retired_.push_back(std::move(prefetcher_));
  }
  loader::Prefetcher::Options options;
  options.parts = parts_;
  options.on_fit = [this](std::optional<int64_t> memory_bytes) {
    std::shared_ptr<loader::TailStream> ending;  // ends after the lock does: it waits for a thread
    const std::lock_guard inner(mutex_);
    tail_memory_bytes_ = memory_bytes;
    if (memory_bytes) {
      StartTailLocked();
    } else {
      ending = std::exchange(tail_, nullptr);
    }
  };
  options.mappings = std::move(mappings);
  prefetcher_ = loader::Prefetcher::Start(std::move(options));
  prefetcher_->SetComputing(computing_);
  cancelled_ = false;
  early_ = early;
}

void WeightsReader::BeginIfCold(bool rested) {
  if (!enabled_ || (!rested && !Tail())) return;
  const std::optional<double> ratio = QuickResidentRatio(parts_);
  if (!ratio || *ratio < kWarmRatio) Begin();
}

void WeightsReader::End() {
  std::vector<std::shared_ptr<loader::Prefetcher>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = retired_;
    if (prefetcher_ != nullptr) ending.push_back(prefetcher_);
    cancelled_ = true;
    early_ = false;
  }
  for (const auto& one : ending) one->Cancel();
  for (const auto& one : ending) one->Wait();
}

void WeightsReader::SetComputing(bool computing) {
  const std::lock_guard lock(mutex_);
  computing_ = computing;
  if (prefetcher_ != nullptr) prefetcher_->SetComputing(computing);
  if (tail_ != nullptr) tail_->SetComputing(computing);
}

void WeightsReader::StartTailLocked() {
  if (tail_ != nullptr || !tail_memory_bytes_ || mappings_.size() != 1) return;
  const engine::FileMapping& mapping = mappings_.front().mapping;
  Result<std::unique_ptr<loader::TailStream>> tail = loader::TailStream::Start(
      PartOf(mapping), loader::PlanTail(mapping.bytes, *tail_memory_bytes_));
  if (!tail.ok()) return;  // slower, no more
  tail_ = *std::move(tail);
  tail_->SetComputing(computing_);
}

std::optional<loader::TailStream::Report> WeightsReader::Tail() const {
  const std::lock_guard lock(mutex_);
  if (tail_ == nullptr) return std::nullopt;
  return tail_->Told();
}

std::optional<loader::PrefetchReport> WeightsReader::Report() const {
  const std::lock_guard lock(mutex_);
  if (prefetcher_ == nullptr) return std::nullopt;
  return prefetcher_->Report();
}

std::optional<engine::Step> WeightsReader::Lane() const {
  const std::optional<loader::PrefetchReport> report = Report();
  if (!report || report->read_bytes == 0) return std::nullopt;
  return engine::Step{engine::Stage::kWeights, "reader", report->started, report->ended,
                      report->read_bytes};
}

int64_t WeightsReader::TotalReadBytes() const {
  const std::lock_guard lock(mutex_);
  return earlier_read_bytes_ + (prefetcher_ == nullptr ? 0 : prefetcher_->Report().read_bytes);
}

std::optional<int64_t> WeightsReader::BytesPerSecond() const {
  const std::optional<loader::PrefetchReport> report = Report();
  if (!report || report->end != loader::PrefetchEnd::kDone) return std::nullopt;
  const int64_t took_ns = report->ended - report->started;
  if (report->read_bytes < kTellingBytes || took_ns <= 0) return std::nullopt;
  return std::llround(static_cast<double>(report->read_bytes) * 1e9 / static_cast<double>(took_ns));
}

std::optional<Error> WeightsReader::Broken() const {
  const std::lock_guard lock(mutex_);
  for (const Guarded& one : mappings_) {
    if (one.guard == nullptr || !one.guard->Broken()) continue;
    const int64_t at = one.mapping.file_offset + one.guard->BrokenAt().value_or(0);
    struct stat facts{};
    const bool there = ::stat(one.mapping.path.c_str(), &facts) == 0;
    const std::string now =
        there ? "it has " + std::to_string(facts.st_size) + " bytes now" : "it is gone now";
    return Error(ErrorCode::kCorrupt,
                 one.mapping.path + " could not be read at byte " + std::to_string(at) +
                     " while the model was in use (cut, or a failing device; " + now + ")");
  }
  return std::nullopt;
}

void WeightsReader::Mapped(const std::vector<engine::FileMapping>& mappings) {
  const std::lock_guard lock(mutex_);
  mappings_.clear();
  std::vector<loader::MappedPart> parts;
  for (const engine::FileMapping& mapping : mappings) {
    mappings_.push_back({mapping, loader::MappingGuard::Over(mapping.address, mapping.bytes)});
    parts.push_back(PartOf(mapping));
  }
  if (prefetcher_ != nullptr) prefetcher_->Attach(std::move(parts));
  StartTailLocked();
}

void WeightsReader::AboutToUnmap() {
  std::shared_ptr<loader::TailStream> tail;
  std::vector<std::shared_ptr<loader::Prefetcher>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending = retired_;
    if (prefetcher_ != nullptr) ending.push_back(prefetcher_);
    // What reads for a model that goes is of no use to anybody.
    cancelled_ = true;
    early_ = false;
    mappings_.clear();
    tail = std::exchange(tail_, nullptr);
    tail_memory_bytes_.reset();
  }
  tail.reset();  // waits for its thread
  for (const auto& one : ending) {
    one->Cancel();
    one->Detach();
  }
}

}  // namespace rouse::server
