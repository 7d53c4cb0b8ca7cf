// The ranks of a BPE vocabulary's merges: one arena of text and a table with open addressing,
// filled by a thread of its own while the rest of the vocabulary is read. A rule is kept as the file
// has it, "left right", and looked up in that form.
#pragma once

#include <cstdint>
#include <cstring>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

class rouse_merges {
  public:
    // Begins to read `count` rules; `text_of(i)` must stay valid until wait() or the first find().
    template <typename TextOf>
    void start(size_t count, TextOf text_of) {
        building = std::async(std::launch::async, [this, count, text_of] { build(count, text_of); });
    }

    // Waits until the rules are read. Throws what reading them threw.
    void wait() const {
        if (building.valid()) {
            building.get();
        }
    }

    // Waits, and throws nothing: for the way out of a load that failed.
    struct guard {
        const rouse_merges & merges;
        ~guard() {
            if (merges.building.valid()) {
                merges.building.wait();
            }
        }
    };

    size_t size() const {
        wait();
        return n_rules;
    }

    // The rank of a rule, or -1. Of equal rules the first one counts.
    int find(const std::string & left, const std::string & right) const {
        wait();
        if (slots.empty()) {
            return -1;
        }
        if (left.empty() && right.empty()) {
            return rank_of_nothing;
        }
        char stack[256];
        const size_t size = left.size() + 1 + right.size();
        std::string heap;
        char * key = stack;
        if (size > sizeof(stack)) {
            heap.resize(size);
            key = &heap[0];
        }
        memcpy(key, left.data(), left.size());
        key[left.size()] = ' ';
        memcpy(key + left.size() + 1, right.data(), right.size());
        const slot & found = slots[place_of(key, size, hash_of(key, size))];
        return found.rule == 0 ? -1 : (int) (found.rule - 1);
    }

    // All rules by rank, as pairs; ranks that an earlier equal rule has taken are missing.
    template <typename Visit>
    void each(Visit visit) const {
        wait();
        if (rank_of_nothing >= 0) {
            visit(rank_of_nothing, std::string(), std::string());
        }
        for (const slot & s : slots) {
            if (s.rule == 0) {
                continue;
            }
            const std::string word(text(s.rule - 1), length(s.rule - 1));
            const size_t gap = word.find(' ', 1);
            visit((int) (s.rule - 1), word.substr(0, gap), word.substr(gap + 1));
        }
    }

  private:
    struct slot {
        uint32_t rule = 0; // its number + 1; 0 = free
        uint32_t hash = 0;
    };

    mutable std::future<void> building;

    std::string           arena;
    std::vector<uint32_t> starts; // of rule i in the arena; one more at the end
    std::vector<slot>     slots;  // a power of two of them, at most two thirds full
    size_t                n_rules         = 0;
    int                   rank_of_nothing = -1; // of the first rule without a gap

    const char * text(size_t rule) const   { return arena.data() + starts[rule]; }
    size_t       length(size_t rule) const { return starts[rule + 1] - starts[rule]; }

    static uint64_t mix(uint64_t a) {
        a *= 0x9E3779B97F4A7C15ull;
        return a ^ (a >> 29);
    }

    static uint32_t hash_of(const char * data, size_t size) {
        uint64_t hash = size;
        while (size >= 8) {
            uint64_t part;
            memcpy(&part, data, 8);
            hash = mix(hash ^ part);
            data += 8;
            size -= 8;
        }
        uint64_t part = 0;
        memcpy(&part, data, size);
        hash = mix(mix(hash ^ part));
        return (uint32_t) (hash >> 32);
    }

    // Where the rule is, or where it would be put.
    size_t place_of(const char * key, size_t size, uint32_t hash) const {
        const size_t mask  = slots.size() - 1;
        size_t       place = hash & mask;
        while (slots[place].rule != 0) {
            const size_t rule = slots[place].rule - 1;
            if (slots[place].hash == hash && length(rule) == size && memcmp(text(rule), key, size) == 0) {
                break;
            }
            place = (place + 1) & mask;
        }
        return place;
    }

    template <typename TextOf>
    void build(size_t count, TextOf text_of) {
        size_t capacity = 16;
        while (capacity < count + count / 2) {
            capacity *= 2;
        }
        slots.resize(capacity);
        starts.reserve(count + 1);
        arena.reserve(count * 12);
        starts.push_back(0);
        // Slots lie anywhere in some megabytes: they are asked for a few rules ahead.
        constexpr size_t ahead = 16;
        uint32_t hashes[ahead] = {};
        for (size_t i = 0; i < count + ahead; ++i) {
            if (i >= ahead) {
                put(i - ahead, hashes[i % ahead]);
            }
            if (i < count) {
                const char * word = text_of(i);
                const size_t size = strlen(word);
                arena.append(word, size);
                if (arena.size() > UINT32_MAX) {
                    throw std::length_error("the merges of the vocabulary are longer than 4 GiB");
                }
                starts.push_back((uint32_t) arena.size());
                hashes[i % ahead] = hash_of(word, size);
                __builtin_prefetch(&slots[hashes[i % ahead] & (slots.size() - 1)]);
            }
        }
    }

    void put(size_t i, uint32_t hash) {
        const char * word = text(i);
        const size_t size = length(i);
        if (size < 2 || memchr(word + 1, ' ', size - 1) == nullptr) {
            if (rank_of_nothing < 0) {
                rank_of_nothing = (int) i;
                ++n_rules;
            }
            return;
        }
        slot & taken = slots[place_of(word, size, hash)];
        if (taken.rule == 0) {
            taken = { (uint32_t) (i + 1), hash };
            ++n_rules;
        }
    }
};
