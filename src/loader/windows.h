// What reader.h and prefetcher.h share: a file cut into windows, without those that are resident,
// and the ways in which one window is read. Private to src/loader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/header.h"
#include "loader/reader.h"
#include "loader/window_runner.h"

namespace rouse::loader {

// Its size; kCorrupt for what is no regular file.
Result<int64_t> RegularFileBytes(int fd, const std::string& path);

// Cuts ranges into windows of whole pages, in order; nothing beyond `end_bytes`. The kernel reads
// ahead of a reader by up to twice `read_ahead_bytes`: what lies so near to the end of a range that
// this would leave the range is marked exact.
std::vector<Window> CutIntoWindows(std::span<const gguf::FileRange> ranges, int64_t window_bytes,
                                   int64_t end_bytes, int64_t read_ahead_bytes);

// How far the kernel reads ahead on the file's device; a generous guess where it does not say.
int64_t ReadAheadBytes(int fd);

// Takes the windows that are wholly resident out of `work`. Returns the resident bytes of all
// windows, or nothing when they can't be counted (to users who do not own the file): a sample can
// miss a hole, and would be thousands of random reads.
std::optional<int64_t> SkipResident(const std::string& path, Work& work);

// Whether the kernel has MADV_POPULATE_READ and the file can be mapped. Touches no page of it.
bool CanPopulate(const std::string& path);

// Readers on descriptors (and mappings) of their own.
MakeReader FileReaderMaker(ReadMethod method, const std::string& path);

// A file that shrank and a device that fails look the same to madvise; the size tells them apart.
Error ExplainReadError(const Error& error, const std::string& path, int64_t file_bytes);

}  // namespace rouse::loader
