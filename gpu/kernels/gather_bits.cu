// Gather of bits, a word a warp: validity of what an index gather fetches. Specialised by INDEX.
#include "warp.cuh"

struct GatherBitsParams {
    const u32* bits;
    const INDEX* indexes;
    u64 items, source_items;
    u32* output;
};

TENON_KERNEL_BOUNDS(gather_bits, GatherBitsParams, tuning::GATHER_THREADS, 1) {
    constexpr u32 WORDS = tuning::GATHER_ITEMS;
    u64 first = (u64)blockIdx.x * tuning::GATHER_THREADS * WORDS + (warp_id() * WORDS) * 32;
    u64 indexes[WORDS];
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
        u64 at = first + i * 32 + lane_id();
        indexes[i] = at < p.items ? (u64)p.indexes[at] : ~(u64)0;
    }
    u32 mine = 0;
#pragma unroll
    for (u32 i = 0; i < WORDS; i++) {
        bool is_set = indexes[i] < p.source_items;
        if (is_set && p.bits) is_set = p.bits[indexes[i] / 32] >> (indexes[i] % 32) & 1;
        u32 word = __ballot_sync(FULL_WARP, is_set);
        if (lane_id() == i) mine = word;
    }
    u64 word_at = first / 32 + lane_id();
    if (lane_id() < WORDS && word_at < ceil_div<u64>(p.items, 32)) p.output[word_at] = mine;
}
