#include "os/diskstats.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

constexpr int64_t kSectorBytes = 512;  // of this file, whatever the device's own

struct Column {
  size_t index;
  int64_t unit;
  std::optional<int64_t> Diskstats::* field;
};
constexpr Column kColumns[] = {
    {3, 1, &Diskstats::reads},
    {4, 1, &Diskstats::merged_reads},
    {5, kSectorBytes, &Diskstats::read_bytes},
    {6, 1, &Diskstats::read_ms},
    {7, 1, &Diskstats::writes},
    {9, kSectorBytes, &Diskstats::written_bytes},
    {10, 1, &Diskstats::write_ms},
    {11, 1, &Diskstats::in_flight},
    {12, 1, &Diskstats::busy_ms},
};

}  // namespace

//  254       0 vda 76311 11197 5883018 47468 41058 60888 8924280 21353 0 14644 71437 16849 46 ...
Result<Diskstats> ReadDiskstats(const ProcRoot& root, const std::string& device) {
  const std::string path = "proc/diskstats";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  for (const std::string_view line : SplitAt(text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.size() < 4 || fields[2] != device) continue;
    Diskstats stats;
    for (const Column& column : kColumns) {
      if (column.index >= fields.size()) continue;
      ASSIGN_OR_RETURN(const int64_t number, ParseKernelNumber(fields[column.index], path, device));
      stats.*column.field = number * column.unit;
    }
    return stats;
  }
  return Error(ErrorCode::kNotFound, "/proc/diskstats has no device " + device);
}

}  // namespace rouse::os
