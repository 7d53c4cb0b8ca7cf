#include "os/free_page_reporting.h"

#include <string>

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// Virtio 1.1, sections 5 and 5.5.3.
constexpr const char* kBalloon = "0x0005";
constexpr size_t kReportingBit = 5;

}  // namespace

// sys/bus/virtio/devices/virtio0/device: 0x0005
// sys/bus/virtio/devices/virtio0/features: 0110010100...  (bit 0 first)
std::optional<bool> ReadFreePageReporting(const ProcRoot& root) {
  const std::string devices = "sys/bus/virtio/devices/";
  const std::vector<std::string> names = root.List(devices);
  if (names.empty()) return std::nullopt;
  for (const std::string& name : names) {
    if (ReadTextFile(root, devices + name + "/device") != kBalloon) continue;
    const std::optional<std::string> features = ReadTextFile(root, devices + name + "/features");
    if (features && features->size() > kReportingBit && (*features)[kReportingBit] == '1') {
      return true;
    }
  }
  return false;
}

}  // namespace rouse::os
