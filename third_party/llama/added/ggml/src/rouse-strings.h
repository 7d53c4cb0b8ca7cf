// The strings of a GGUF array in the form in which the file has them: one block of memory instead of
// some hundred thousand std::string. Included once, by gguf.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

struct rouse_strings {
    rouse_strings() = default;
    rouse_strings(const rouse_strings &) = delete;
    rouse_strings & operator=(const rouse_strings &) = delete;
    ~rouse_strings() { free(block); }

    size_t       size() const { return starts.size(); }
    const char * at(size_t i) const { return block + starts[i]; }

    // Reads `count` strings, each behind its length, by `read(where, bytes)`, of which `remain`
    // bytes are there. Returns how many bytes they take, or -1. May have read more than that.
    template <typename Read>
    int64_t fill(uint64_t count, uint64_t remain, uint64_t longest, Read read) {
        starts.resize(count);
        size_t end = 0;
        for (uint64_t i = 0; i < count; ++i) {
            uint64_t length = 0;
            if (!have(end + sizeof(length), remain, read)) {
                return -1;
            }
            memcpy(&length, block + end, sizeof(length));
            block[end] = 0; // ends the string before it
            end += sizeof(length);
            if (length > longest || length > remain - end || end > UINT32_MAX || !have(end + length, remain, read)) {
                return -1;
            }
            starts[i] = (uint32_t) end;
            end += length;
        }
        if (end == bytes) {
            grow(bytes + 1);
        }
        block[end] = 0;
        return (int64_t) end;
    }

  private:
    static constexpr size_t piece = size_t(1) << 20;

    char *                block    = nullptr;
    size_t                bytes    = 0; // read
    size_t                capacity = 0;
    std::vector<uint32_t> starts;

    template <typename Read>
    bool have(uint64_t wanted, uint64_t remain, Read read) {
        if (wanted <= bytes) {
            return true;
        }
        if (wanted > remain) {
            return false;
        }
        const uint64_t until = wanted > bytes + piece ? wanted : remain < bytes + piece ? remain : bytes + piece;
        grow(until + 1);
        if (!read(block + bytes, until - bytes)) {
            return false;
        }
        bytes = until;
        return true;
    }

    void grow(size_t least) {
        if (least <= capacity) {
            return;
        }
        const size_t next  = least > 2 * capacity ? least : 2 * capacity;
        void *       moved = realloc(block, next);
        if (moved == nullptr) {
            throw std::bad_alloc();
        }
        block    = (char *) moved;
        capacity = next;
    }
};
