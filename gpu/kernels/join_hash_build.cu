// Building a hash table in device memory.
//
//   key_range   lowest and highest key
//   clear       makes all slots empty
//   insert      a thread a key; a key that is there already sets `duplicate`, and the others give up
//   spread      from marked groups to flags of their rows
//
// Macros: those of join_hash_table.cuh; UNIQUE is not used.
#include "join_hash_table.cuh"
#include "tile.cuh"

struct RangeParams {
    const KEY* keys;
    u64 items;
    u64* range;  // lowest (at first all ones), highest (at first 0)
};
struct ClearParams {
    TableView table;
};
struct InsertParams {
    const KEY* keys;
    const u32* values;  // null: the key's number
    const u64* count;   // null: `items` keys; else no more than that
    u64 items;
    TableView table;
    u32* duplicate;
};
struct SpreadParams {
    const u8* marks;     // [groups]
    const u32* offsets;  // [groups + 1]
    const u64* groups;
    const u32* rows;
    u64 items;
    u8* flags;
};

TENON_KERNEL(key_range, RangeParams) {
    u64 low = ~0ull, high = 0;
    for_each_item<4>(p.keys, p.items, [&](KEY key) {
        low = min_of<u64>(low, key);
        high = max_of<u64>(high, key);
    });
    low = warp_reduce(low, Min());
    high = warp_reduce(high, Max());
    if (lane_id() == 0) {
        atomicMin(&p.range[0], low);
        atomicMax(&p.range[1], high);
    }
}

TENON_KERNEL(clear, ClearParams) {
#if DENSE
    for (u64 i = global_thread(); i < p.table.range; i += grid_threads()) p.table.array[i] = NONE;
#else
    for (u64 i = global_thread(); i <= p.table.last_slot(); i += grid_threads()) p.table.slots[i] = Slot::empty();
#endif
}

/// Puts the key in; false if it is there already.
TENON_DEVICE bool insert_key(SlotOf<u32>* slots, u64 at, u64 mask, u32 key, u32 value) {
    u64 bits = (u64)key << 32 | value;
    while (true) {
        u64 old = atomicCAS(&slots[at].bits, ~0ull, bits);
        if (old == ~0ull) return true;
        if (old >> 32 == key) return false;
        at = (at + 1) & mask;
    }
}
TENON_DEVICE bool insert_key(SlotOf<u64>* slots, u64 at, u64 mask, u64 key, u32 value) {
    if (key == ~0ull) return atomicCAS(&slots[mask + 1].found, NONE, value) == NONE;
    while (true) {
        u64 old = atomicCAS(&slots[at].bits, ~0ull, key);
        if (old == key) return false;
        if (old == ~0ull) break;
        at = (at + 1) & mask;
    }
    slots[at].found = value;
    return true;
}

TENON_KERNEL(insert, InsertParams) {
    u64 items = p.count ? min_of<u64>(*p.count, p.items) : p.items;
    for (u64 i = global_thread(); i < items; i += grid_threads()) {
        if (ld_relaxed(p.duplicate)) return;
        KEY key = p.keys[i];
        u32 value = p.values ? p.values[i] : (u32)i;
#if DENSE
        bool is_new = atomicCAS(&p.table.array[(u64)key - p.table.low], NONE, value) == NONE;
#else
        bool is_new = insert_key(p.table.slots, p.table.slot_of(key), p.table.mask(), key, value);
#endif
        if (!is_new) st_relaxed(p.duplicate, 1u);
    }
}

TENON_KERNEL(spread, SpreadParams) {
    for (u64 i = global_thread(); i < p.items; i += grid_threads()) {
        // The last group that starts at or before this row.
        u64 low = 0, high = *p.groups;
        while (high - low > 1) {
            u64 middle = low + (high - low) / 2;
            if (p.offsets[middle] <= i) low = middle;
            else high = middle;
        }
        if (p.marks[low]) p.flags[p.rows[i]] = 1;
    }
}
