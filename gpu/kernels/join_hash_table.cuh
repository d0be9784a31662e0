// A hash table in device memory that one or many probe sides look into.
//
// A key's value is its row, if no key comes twice (UNIQUE), else the number of its group of rows. The table is an array
// over the range of keys where they are dense (DENSE), else slots by linear probing, at most half of them taken.
//
// Macros: KEY, DENSE, UNIQUE, HASH_EQUAL.
#pragma once
#define WORD KEY
#include "join_hash.cuh"

constexpr u32 NONE = 0xffffffffu;  // no row, no group

/// 8 bytes with 32-bit keys: key in the upper half, so that one compare-and-swap takes a slot. 16 with 64-bit keys.
template <class K>
struct SlotOf;
template <>
struct SlotOf<u32> {
    u64 bits;  // all ones: empty, as no value is
    static TENON_METHOD SlotOf empty() { return SlotOf{~0ull}; }
    TENON_METHOD bool is_empty() const { return (u32)bits == NONE; }
    TENON_METHOD u32 key() const { return (u32)(bits >> 32); }
    TENON_METHOD u32 value() const { return (u32)bits; }
};
template <>
struct alignas(16) SlotOf<u64> {
    u64 bits;  // the key; all ones: empty. The key of all ones has a slot of its own behind all others.
    u32 found, unused;
    static TENON_METHOD SlotOf empty() { return SlotOf{~0ull, NONE, 0}; }
    TENON_METHOD bool is_empty() const { return bits == ~0ull; }
    TENON_METHOD u64 key() const { return bits; }
    TENON_METHOD u32 value() const { return found; }
};
typedef SlotOf<KEY> Slot;

struct TableView {
    Slot* slots;
    u32* array;     // DENSE: [range]
    u64 low;        // DENSE: the lowest key
    u64 range;      // DENSE: keys from the lowest to the highest
    u32 slots_log2, unused;

    TENON_METHOD u64 mask() const { return ((u64)1 << slots_log2) - 1; }
    TENON_METHOD u64 slot_of(KEY key) const { return slots_log2 == 0 ? 0 : hash_of(key) >> (32 - slots_log2); }
    /// The slot of the key that marks empty slots.
    TENON_METHOD u64 last_slot() const { return mask() + 1; }
};

#if DENSE
typedef u32 First;
TENON_DEVICE First find_first(const TableView& t, KEY key) {
    u64 at = (u64)key - t.low;
    return (u64)key >= t.low && at < t.range ? t.array[at] : NONE;
}
TENON_DEVICE u32 find_rest(const TableView& t, KEY key, First first) { return first; }
#else
typedef Slot First;
/// The first slot to look at: loads of several keys can be under way at once.
TENON_DEVICE First find_first(const TableView& t, KEY key) { return t.slots[t.slot_of(key)]; }
/// The key's value, or NONE, once the first slot is there.
TENON_DEVICE u32 find_rest(const TableView& t, KEY key, First slot) {
    if (sizeof(KEY) == 8 && key == (KEY)~0ull) return t.slots[t.last_slot()].value();
    u64 at = t.slot_of(key);
    while (!slot.is_empty()) {
        if (slot.key() == key) return slot.value();
        at = (at + 1) & t.mask();
        slot = t.slots[at];
    }
    return NONE;
}
#endif
