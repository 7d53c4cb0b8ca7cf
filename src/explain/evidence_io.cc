// The looks that read memory, page cache and disk. What they have in common: bytes that the target
// read, and the rate at which it got them.
#include <algorithm>

#include "explain/evidence.h"

namespace rouse::explain {
namespace {

using results::Stage;
using Seen = Finding::Seen;

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kReclaimBytes = 4 * kMib;
constexpr double kMemoryWaitShare = 0.05;
// Waiting for memory counts waiting for pages that were taken away a moment ago (the kernel's
// Documentation/accounting/psi.rst), which a cold file alone does not cause. That much of it needs
// no other witness: reclaim inside a control group is not in the machine's counters.
constexpr double kMemoryWaitAlone = 0.20;
constexpr double kRereadShare = 0.20;
constexpr double kReadBytes = kMib;
constexpr double kOthersReadBytes = 8 * kMib;
constexpr double kSlowerRate = 0.75;
constexpr double kResidentTolerance = 0.02;
constexpr double kWarm = 0.99;

Finding No(std::string sentence) { return {Seen::kNo, std::nullopt, std::move(sentence)}; }
Finding Unknown(std::string sentence) {
  return {Seen::kUnknown, std::nullopt, std::move(sentence)};
}

std::string Missing(const Case& each, std::string_view counter) {
  const auto reason = each.subject.null_reasons.find(counter);
  return std::string(counter) + " was not measured" +
         (reason == each.subject.null_reasons.end() ? "" : " (" + reason->second + ")");
}

std::optional<double> Resident(const Profile& profile) {
  const LayerView* const view = profile.Layer("page_cache");
  return view == nullptr ? std::nullopt : view->share;
}

// Bytes of the file that were not in memory at the send.
std::optional<double> MissingBytes(const Case& each) {
  const std::optional<double> share = Resident(each.subject);
  if (!share || !each.model_bytes) return std::nullopt;
  return (1 - *share) * *each.model_bytes;
}

// The time in which the target's reads happened: the lanes that moved bytes, else the stage.
std::optional<double> ReadNs(const Profile& profile) {
  if (profile.lane_ns && *profile.lane_ns > 0) return profile.lane_ns;
  const std::optional<double> weights = profile.Stage(Stage::kWeights);
  if (weights && *weights > 0) return weights;
  return std::nullopt;
}

std::optional<double> ReadRate(const Profile& profile) {
  const std::optional<double> bytes = profile.Counter("target_read_bytes");
  const std::optional<double> ns = ReadNs(profile);
  if (!bytes || !ns || *bytes < kReadBytes) return std::nullopt;
  return *bytes / (*ns / 1e9);
}

// "; 98.4 MB at 640 MB/s, as measured in this run, take 154 ms, the stages hold 160 ms more"
std::string AccountWords(double bytes, double rate, bool measured, const Case& each) {
  const double needed = bytes / rate * 1e9;
  return "; " + Bytes(bytes) + " were read, which at " + Bytes(rate) + "/s (" +
         (measured ? "measured in this run" : "its own rate") + ") take " + Ms(needed) +
         ", and weights and prefill took " +
         Ms(StageExcess(each, Mask(Stage::kWeights) | Mask(Stage::kPrefill))) + " more";
}

}  // namespace

std::optional<double> ReadExcess(const Case& each) {
  return CounterExcess(each, "target_read_bytes");
}

Finding LookMemoryReclaim(const Case& each) {
  const std::optional<double> reclaimed = CounterExcess(each, "machine_reclaimed_bytes");
  const std::optional<double> waited_us = CounterExcess(each, "psi_memory_some_us");
  if (!reclaimed && !waited_us) return Unknown(Missing(each, "machine_reclaimed_bytes"));
  const double waited_ns = waited_us.value_or(0) * 1e3;
  const bool waited = waited_ns >= kMemoryWaitShare * each.excess_ns && waited_ns >= 1e6;
  const std::optional<double> missing = MissingBytes(each);
  const std::optional<double> read = each.subject.Counter("target_read_bytes");
  const bool reread = missing && read && *read >= (1 + kRereadShare) * *missing + kReclaimBytes;
  std::string words;
  if (reclaimed) {
    words = "the kernel took back " +
            Bytes(each.subject.Counter("machine_reclaimed_bytes").value()) +
            " of memory meanwhile (usually " +
            Bytes(each.reference.Counter("machine_reclaimed_bytes").value()) + ")";
  }
  if (waited_us) {
    words += std::string(words.empty() ? "" : ", and ") + "some task waited for memory for " +
             Ms(std::max(0.0, waited_ns)) + " more than usually";
  }
  if (reread)
    words += "; " + Bytes(*read) + " were read although " + Bytes(*missing) + " were missing";
  const bool took = reclaimed.value_or(0) >= kReclaimBytes;
  const bool alone = waited && waited_ns >= kMemoryWaitAlone * each.excess_ns;
  if (!alone && !(waited && (took || reread)) && !(took && reread)) return No(words);
  return {Seen::kYes, std::nullopt, words};
}

Finding LookSwapIn(const Case& each) {
  const std::optional<double> more = CounterExcess(each, "machine_swap_in_bytes");
  if (!more) return Unknown(Missing(each, "machine_swap_in_bytes"));
  const std::string words = Bytes(std::max(0.0, *more)) + " came back from swap";
  return *more >= kReadBytes ? Finding{Seen::kYes, std::nullopt, words} : No(words);
}

Finding LookPageCache(const Case& each) {
  const std::optional<double> here = Resident(each.subject);
  const std::optional<double> usual = Resident(each.reference);
  if (!here) return Unknown("how much of the file was in the page cache is not known");
  const std::string proof = each.subject.Layer("page_cache")->proof;
  std::string words = Percent(*here) + " of the file were in the page cache at the send (" + proof +
                      (usual ? "; usually " + Percent(*usual) : "") + ")";
  if (usual ? *here > *usual - kResidentTolerance : *here >= kWarm) return No(words);
  const std::optional<double> read = ReadExcess(each);
  const double bytes = std::max(0.0, read.value_or(MissingBytes(each).value_or(0)));
  // Read-ahead rounds up, and what another process fetched does not count as ours.
  if (read && *read < kReadBytes) {
    return No(words + ", but the server read only " + Bytes(bytes) + " from the disk");
  }
  const std::optional<double> own = ReadRate(each.subject);
  const std::optional<double> rate = each.disk_bytes_per_s ? each.disk_bytes_per_s : own;
  if (bytes <= 0 || !rate) return {Seen::kYes, std::nullopt, words};
  words += AccountWords(bytes, *rate, each.disk_bytes_per_s.has_value(), each);
  // Reads on behalf of faults are slower than a loader's, so what the stages hold beyond the rate
  // is claimed too, unless this attempt's own loader was slow: that is a cause of its own.
  const bool slow = own && each.disk_bytes_per_s && *own < kSlowerRate * *each.disk_bytes_per_s;
  return {Seen::kYes, slow ? std::optional<double>(bytes / *rate * 1e9) : std::nullopt, words};
}

Finding LookDiskBusy(const Case& each) {
  const std::optional<double> all = each.subject.Counter("machine_disk_read_bytes");
  const std::optional<double> own = each.subject.Counter("target_read_bytes");
  if (!own) return Unknown(Missing(each, "target_read_bytes"));
  if (*own < kReadBytes) return No("the server read only " + Bytes(*own) + " from the disk");
  if (!all) return Unknown(Missing(each, "machine_disk_read_bytes"));
  const double others = std::max(0.0, *all - *own);
  const std::string words = "others read " + Bytes(others) +
                            " from the same disk while the server " + "read " + Bytes(*own);
  if (others < kOthersReadBytes || others < *own / 2) return No(words);
  const std::optional<double> here = ReadRate(each.subject);
  const std::optional<double> usual = ReadRate(each.reference);
  const std::optional<double> wanted = usual ? usual : each.disk_bytes_per_s;
  if (!here || !wanted) return {Seen::kYes, std::nullopt, words};
  if (*here > kSlowerRate * *wanted) return No(words + ", without slowing it");
  return {Seen::kYes, std::nullopt,
          words + "; it got " + Bytes(*here) + "/s (usually " + Bytes(*wanted) + "/s)"};
}

Finding LookDiskSlow(const Case& each) {
  const std::optional<double> own = each.subject.Counter("target_read_bytes");
  if (!own) return Unknown(Missing(each, "target_read_bytes"));
  if (*own < kReadBytes) return No("the server read only " + Bytes(*own) + " from the disk");
  const std::optional<double> here = ReadRate(each.subject);
  const std::optional<double> usual = ReadRate(each.reference);
  const std::optional<double> wanted = usual ? usual : each.disk_bytes_per_s;
  if (!here || !wanted) return Unknown("the rate of the disk is not known on both sides");
  const std::string words =
      Bytes(*own) + " were read at " + Bytes(*here) + "/s (usually " + Bytes(*wanted) + "/s)";
  if (*here > kSlowerRate * *wanted) return No(words);
  // What the same bytes would have taken at the usual rate is not the disk's slowness.
  return {Seen::kYes, *own / *here * 1e9 - *own / *wanted * 1e9, words};
}

}  // namespace rouse::explain
