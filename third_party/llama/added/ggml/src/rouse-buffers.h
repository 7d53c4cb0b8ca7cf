// Large CPU buffers as mappings of their own instead of parts of the heap: they are zero when they
// are new, so that clearing them costs nothing, and their memory can be given back while they live.
// Included once, by ggml-backend.cpp.
#pragma once

#include "ggml.h"
#include "ggml-impl.h"
#include "rouse-edits.h"

#include <cstdint>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace rouse_buffers {

struct region {
    void *   base;
    size_t   bytes; // whole pages
    uint64_t mark;
};

// Smaller ones come from the heap as before: a mapping costs a system call and whole pages.
constexpr size_t smallest = size_t(1) << 20;

inline thread_local uint64_t current_mark = 0;
inline std::mutex            mutex;
inline std::vector<region>   regions;

#if defined(__linux__)
inline void * allocate(size_t size) {
    if (size < smallest) {
        return ggml_aligned_malloc(size);
    }
    const size_t page  = (size_t) sysconf(_SC_PAGESIZE);
    const size_t bytes = (size + page - 1) / page * page;
    if (bytes < size) {
        return nullptr;
    }
    void * base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return nullptr;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    regions.push_back({ base, bytes, current_mark });
    return base;
}

inline void release(void * base, size_t size) {
    {
        const std::lock_guard<std::mutex> lock(mutex);
        for (size_t i = 0; i < regions.size(); ++i) {
            if (regions[i].base != base) {
                continue;
            }
            munmap(base, regions[i].bytes);
            regions[i] = regions.back();
            regions.pop_back();
            return;
        }
    }
    ggml_aligned_free(base, size);
}

// False when it isn't one of ours: then somebody has to write the zeros.
inline bool zero(void * base) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const region & r : regions) {
        if (r.base == base) {
            return madvise(base, r.bytes, MADV_DONTNEED) == 0;
        }
    }
    return false;
}
#else
inline void * allocate(size_t size)             { return ggml_aligned_malloc(size); }
inline void   release(void * base, size_t size) { ggml_aligned_free(base, size); }
inline bool   zero(void *)                      { return false; }
#endif

} // namespace rouse_buffers

void rouse_mark_buffers(uint64_t mark) {
    rouse_buffers::current_mark = mark;
}

size_t rouse_drop_buffers(uint64_t mark) {
    size_t dropped = 0;
#if defined(__linux__)
    const std::lock_guard<std::mutex> lock(rouse_buffers::mutex);
    for (const rouse_buffers::region & r : rouse_buffers::regions) {
        if (r.mark == mark && madvise(r.base, r.bytes, MADV_DONTNEED) == 0) {
            dropped += r.bytes;
        }
    }
#else
    (void) mark;
#endif
    return dropped;
}
