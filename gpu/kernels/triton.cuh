// What the kernels of the Triton join share: the hash, partitions, and the tables of build rows in device memory.
//
// Macros: those of triton_hash.cuh; BUILD_VALUE and PROBE_VALUE (u32, u64), WORD (u64 if key or build value has 8
// bytes, else u32), TABLE (see below), GROUPED (a chained table counts and sums the values of each key).
#pragma once
#include "block.cuh"
#include "triton_hash.cuh"

#define TABLE_LINEAR 0   // slots of key and value, linear probing: the cached build rows
#define TABLE_PERFECT 1  // an array of values by key: the cached build rows, where keys are dense
#define TABLE_CHAINED 2  // a list of rows a key: a pair of partitions, with any number of equal keys

constexpr WORD EMPTY = ~(WORD)0;
constexpr u32 NONE = 0xffffffffu;
/// Slots that a row may be away from its hash's: beyond, it is spilled.
constexpr u32 PROBE_MAX = 4096;
/// Rows of one key that a linear table takes, or each further one would walk past all of them: they are spilled.
constexpr u32 EQUAL_MAX = 32;

struct alignas(2 * sizeof(WORD)) Slot {
    WORD key, value;
};

struct Table {
    Slot* slots;  // LINEAR: all bits set where empty
    WORD* array;  // PERFECT: the same
    u64 size;     // slots, places of the array, or rows of a chained table
    // CHAINED: all rows, in place; heads by linear probing, one a distinct key, all bits set where empty.
    const KEY* keys;
    const BUILD_VALUE* values;
    u32* heads;
    u32* links;   // next row of the key
    u32* groups;  // GROUPED, at the first row of a key: its rows, and the sum of their values
    u64* sums;
    u64 head_count;
    Partitioning partitions;
    const u32* duplicates;  // whether two rows have equal keys; null: they may
    u32 cached;             // LINEAR: how many 256ths of partitions are kept in the table
    u32 unused;

    /// Whether no two rows have equal keys, so that a look-up ends at the first match.
    TENON_METHOD bool is_unique() const { return duplicates && !*duplicates; }

    /// Whether rows of this key are kept in the table, if there is room: those of whole partitions and a part of the
    /// next, so that the share is as fine as the budget, and partitions as few as their runs are long.
    TENON_METHOD bool is_cached(KEY key) const {
#if TABLE == TABLE_PERFECT
        return (u64)key - partitions.key_min < size;
#else
        u64 hash = hash_of(key);
        return (((u32)hash & (partitions.count - 1)) << 8 | ((u32)(hash >> 16) & 255)) < cached;
#endif
    }

    /// Takes a row in; false if it has no place. `duplicate` becomes true if its key was there.
    TENON_METHOD bool insert(KEY key, BUILD_VALUE value, bool& duplicate) const {
#if TABLE == TABLE_PERFECT
        u64 at = (u64)key - partitions.key_min;
        if (at >= size || (WORD)value == EMPTY) return false;
        return atomicCAS(&array[at], EMPTY, (WORD)value) == EMPTY;
#elif TABLE == TABLE_LINEAR
        if ((WORD)key == EMPTY || size == 0) return false;
        u64 slot = __umul64hi(hash_of(key), size);
        u32 equal = 0;
        for (u32 i = 0; i < PROBE_MAX; i++) {
            WORD found = ld_relaxed(&slots[slot].key);
            if (found == EMPTY) found = atomicCAS(&slots[slot].key, EMPTY, (WORD)key);
            if (found == EMPTY) {
                slots[slot].value = (WORD)value;
                return true;
            }
            if (found == (WORD)key) {
                duplicate = true;
                if (++equal == EQUAL_MAX) return false;
            }
            slot = slot + 1 == size ? 0 : slot + 1;
        }
        return false;
#else
        return false;
#endif
    }

    /// Links row `row` of a chained table, if it is `valid`; all lanes of a warp together.
    TENON_METHOD void link(u32 row, bool valid) const {
#if GROUPED
        u32 of = NONE;  // the first row of the key
#endif
        if (valid) {
            KEY key = keys[row];
            u64 slot = __umul64hi(hash_of(key), head_count);
            while (true) {
                u32 head = ld_relaxed(&heads[slot]);
                if (head == NONE) head = atomicCAS(&heads[slot], NONE, row);
                bool first = head == NONE;
                if (first || keys[head] == key) {
#if GROUPED
                    of = first ? row : head;
#else
                    links[row] = first ? NONE : atomicExch(&heads[slot], row);
#endif
                    break;
                }
                slot = slot + 1 == head_count ? 0 : slot + 1;
            }
        }
#if GROUPED
        // One key may have all rows: a warp of one key adds its sum.
        u32 lanes = __ballot_sync(FULL_WARP, valid);
        if (lanes == 0) return;
        u64 value = valid ? (u64)values[row] : 0;
        u32 leader = shuffle(of, (u32)__ffs((i32)lanes) - 1);
        if (__all_sync(FULL_WARP, !valid || of == leader)) {
            value = warp_reduce(value, Sum());
            if (lane_id() == 0) {
                atomicAdd(&groups[leader], (u32)__popc(lanes));
                atomicAdd(&sums[leader], value);
            }
        } else if (valid) {
            atomicAdd(&groups[of], 1u);
            atomicAdd(&sums[of], value);
        }
#endif
    }

    /// A row of a chained table with this key, or NONE.
    TENON_METHOD u32 find(KEY key) const {
        u64 slot = __umul64hi(hash_of(key), head_count);
        while (true) {
            u32 head = heads[slot];
            if (head == NONE || keys[head] == key) return head;
            slot = slot + 1 == head_count ? 0 : slot + 1;
        }
    }

    /// Calls `f(value)` for the rows of this key, in the same order each time, until it returns false. `unique` is
    /// `is_unique()`.
    template <class F>
    TENON_METHOD void for_each(KEY key, bool unique, F f) const {
#if TABLE == TABLE_PERFECT
        u64 at = (u64)key - partitions.key_min;
        if (at >= size) return;
        WORD value = array[at];
        if (value != EMPTY) f((BUILD_VALUE)value);
#elif TABLE == TABLE_LINEAR
        if (size == 0 || (WORD)key == EMPTY) return;
        u64 at = __umul64hi(hash_of(key), size);
        for (u32 i = 0; i < PROBE_MAX; i++) {
            Slot slot = slots[at];
            if (slot.key == EMPTY) return;
            if (slot.key == (WORD)key && (!f((BUILD_VALUE)slot.value) || unique)) return;
            at = at + 1 == size ? 0 : at + 1;
        }
#else
        for (u32 row = find(key); row != NONE; row = links[row]) {
            if (!f(values[row])) return;
        }
#endif
    }
};
