// A vocabulary's texts to their tokens: open addressing over views, in place of an unordered_map
// whose nodes are scattered over memory. What depends on that map's order of iteration (which token
// ends a turn, where a file names none) still gets that order: each() works it out afterwards, from
// the hashes and the order of insertion, in compact arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <vector>

class rouse_token_table {
  public:
    struct entry {
        std::string_view first; // of a text that somebody else holds
        int32_t          second;
        size_t           hash;
    };

    // So many will come. Has no influence on the order.
    void reserve(size_t count) {
        entries.reserve(count);
        if (slots.size() < 2 * (count + ahead + 1)) {
            spread(2 * (count + ahead + 1));
        }
    }

    // As map[key] = token. Takes effect some calls later, or with settle(): places lie anywhere in
    // some megabytes, and are asked for ahead of their use.
    void set(std::string_view key, int32_t token) {
        if (set_count - done_count == ahead) {
            settle_one();
        }
        const size_t hash = std::hash<std::string_view>{}(key);
        if (slots.size() < 2 * (entries.size() + ahead + 1)) {
            spread(4 * (entries.size() + ahead + 1));
        }
        waiting[set_count++ % ahead] = { key, token, hash };
        __builtin_prefetch(&slots[hash & (slots.size() - 1)]);
    }

    // To be called before anything is asked.
    void settle() {
        while (done_count < set_count) {
            settle_one();
        }
    }

    const entry * find(std::string_view key) const {
        if (slots.empty()) {
            return end();
        }
        const uint64_t slot = slots[place_of(key, std::hash<std::string_view>{}(key))];
        return slot == 0 ? end() : &entries[(uint32_t) slot - 1];
    }
    const entry * end() const { return nullptr; }

    int32_t at(std::string_view key) const {
        const entry * found = find(key);
        if (found == end()) {
            throw std::out_of_range("no such token");
        }
        return found->second;
    }
    size_t count(std::string_view key) const { return find(key) == end() ? 0 : 1; }
    size_t size() const { return entries.size(); }

    // All of them, in the order in which a std::unordered_map would give them that got the same keys
    // in the same order and in which nothing was reserved.
    template <typename Visit>
    void each(Visit visit) const {
#if defined(__GLIBCXX__)
        const uint32_t n    = (uint32_t) entries.size();
        const uint32_t none = UINT32_MAX;
        std::vector<uint32_t> next(n + 1, none); // the last one is what stands before the first
        std::vector<uint32_t> buckets(1, none);  // what stands before the bucket's first
        std::vector<size_t> hashes(n); // side by side: they are looked at in no order
        for (uint32_t i = 0; i < n; ++i) {
            hashes[i] = entries[i].hash;
        }
        std::__detail::_Prime_rehash_policy policy;
        for (uint32_t i = 0; i < n; ++i) {
            const auto grow = policy._M_need_rehash(buckets.size(), i, 1);
            if (grow.first) {
                buckets.assign(grow.second, none);
                uint32_t at           = next[n];
                uint32_t first_bucket = 0; // of the list's first
                next[n] = none;
                while (at != none) {
                    const uint32_t then   = next[at];
                    const uint32_t bucket = (uint32_t) (hashes[at] % buckets.size());
                    if (buckets[bucket] == none) {
                        next[at]        = next[n];
                        next[n]         = at;
                        buckets[bucket] = n;
                        if (next[at] != none) {
                            buckets[first_bucket] = at;
                        }
                        first_bucket = bucket;
                    } else {
                        next[at]              = next[buckets[bucket]];
                        next[buckets[bucket]] = at;
                    }
                    at = then;
                }
            }
            const uint32_t bucket = (uint32_t) (hashes[i] % buckets.size());
            if (buckets[bucket] == none) {
                next[i] = next[n];
                next[n] = i;
                if (next[i] != none) {
                    buckets[hashes[next[i]] % buckets.size()] = i;
                }
                buckets[bucket] = n;
            } else {
                next[i]               = next[buckets[bucket]];
                next[buckets[bucket]] = i;
            }
        }
        for (uint32_t at = next[n]; at != none; at = next[at]) {
            visit(entries[at].first, entries[at].second);
        }
#else
        std::unordered_map<std::string_view, int32_t> map;
        for (const entry & e : entries) {
            map[e.first] = e.second;
        }
        for (const auto & one : map) {
            visit(one.first, one.second);
        }
#endif
    }

  private:
    std::vector<entry>    entries; // by insertion
    std::vector<uint64_t> slots;   // a power of two of them: upper half of the hash, entry + 1; 0 = free

    static constexpr size_t ahead = 16;
    entry  waiting[ahead];
    size_t set_count  = 0;
    size_t done_count = 0;

    void settle_one() {
        const entry & next = waiting[done_count++ % ahead];
        uint64_t &    slot = slots[place_of(next.first, next.hash)];
        if (slot == 0) {
            entries.push_back(next);
            slot = slot_of(next.hash, entries.size());
        } else {
            entries[(uint32_t) slot - 1].second = next.second;
        }
    }

    static uint64_t slot_of(size_t hash, size_t number) {
        return ((uint64_t) hash >> 32 << 32) | (uint32_t) number;
    }

    // Where the key is, or where it would be put.
    size_t place_of(std::string_view key, size_t hash) const {
        const size_t mask  = slots.size() - 1;
        size_t       place = hash & mask;
        while (slots[place] != 0) {
            if (slots[place] >> 32 == (uint64_t) hash >> 32 && entries[(uint32_t) slots[place] - 1].first == key) {
                break;
            }
            place = (place + 1) & mask;
        }
        return place;
    }

    void spread(size_t least) {
        size_t capacity = 16;
        while (capacity < least) {
            capacity *= 2;
        }
        slots.assign(capacity, 0);
        for (size_t i = 0; i < entries.size(); ++i) {
            size_t place = entries[i].hash & (capacity - 1);
            while (slots[place] != 0) {
                place = (place + 1) & (capacity - 1);
            }
            slots[place] = slot_of(entries[i].hash, i + 1);
        }
    }
};
