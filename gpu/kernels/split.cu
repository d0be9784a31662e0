// What a split of several passes needs besides the passes. Macros: KEY, KEY_FLOAT, CUSTOM_CODE as in radix_key.cuh;
// PLACE: u32 or u64.
#include "radix_key.cuh"

struct OffsetsParams {
    const KEY* keys;  // in order of partition
    u64 items;
    u64* offsets;  // [partitions + 1]
    u64 partitions;
    CodeParams code;
};
struct InvertParams {
    const PLACE* indices;
    const PLACE* values;  // null: the item's number
    PLACE* places;
    u64 items;
};

/// offsets[i]: the first item of partition i or above. A thread a partition searches the ordered keys, so that neither
/// empty partitions nor skew make one thread write many.
TENON_KERNEL(partition_offsets, OffsetsParams) {
    u64 partition = global_thread();
    if (partition > p.partitions) return;
    u64 low = 0, high = p.items;
    while (low < high) {
        u64 middle = low + (high - low) / 2;
        u64 code = (u64)(u32)(code_of(p.keys[middle], p.code) >> p.code.shift) & p.code.mask;
        if (code < partition) low = middle + 1;
        else high = middle;
    }
    p.offsets[partition] = low;
}

/// Gather index to scatter index: places[indices[i]] = i, or = values[i].
TENON_KERNEL(invert, InvertParams) {
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        p.places[p.indices[at]] = p.values ? p.values[at] : (PLACE)at;
    }
}
