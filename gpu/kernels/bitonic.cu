// Bitonic sort with its inner steps in shared memory (Govindaraju et al. 2005, section 4: what one cache holds is
// sorted there before the next is touched; He 2008, sections 3.1.5 and 3.2.2).
//
// Every comparator puts the smaller element at the lower place: a stage begins with mirrored pairs instead of
// alternating directions. So any length works: what lies beyond the end counts as larger than all and never moves.
//
// Macros: KEY, KEY_FLOAT, PAYLOAD_BYTES (0, 4, 8, 16).
#include "radix_key.cuh"

#if PAYLOAD_BYTES == 4
typedef u32 Payload;
#elif PAYLOAD_BYTES == 8
typedef u64 Payload;
#else
typedef u128 Payload;
#endif

constexpr u32 THREADS = tuning::BITONIC_THREADS, TILE = tuning::BITONIC_TILE, ITEMS = TILE / THREADS;

struct TilesParams {
    const KEY* keys_in;
    KEY* keys_out;              // may be keys_in
    const Payload* payload_in;  // null: the item's number
    Payload* payload_out;
    const u64* offsets;         // null: tiles of TILE items; else block b sorts the items offsets[b]..offsets[b + 1]
    u64 items;
    u64 span;  // 0: sort each tile; else only the last steps of a stage of a larger span, those within tiles
    CodeParams code;
};
struct StepParams {
    KEY* keys;
    Payload* payload;
    u64 items, span, mirrored;
    CodeParams code;
};

/// What is compared: literals 2 and 3 mask the bits that count.
TENON_DEVICE KeyBits compared(KEY key, const CodeParams& c) {
    if constexpr (sizeof(KEY) == 16) {
        return code_of(key, c) & ((u128)c.literals[3] << 64 | c.literals[2]);
    } else {
        return code_of(key, c) & (KeyBits)c.literals[2];
    }
}

struct Tile {
    KeyBits codes[TILE];
    u16 items[TILE];
};

/// One step of a stage: pairs within groups of `span` items, mirrored or half a span apart. Equal codes are in the
/// order of their items, so that a tile is sorted stably.
TENON_DEVICE void tile_step(Tile& tile, u32 span, bool mirrored, u32 count) {
#pragma unroll
    for (u32 r = 0; r < ITEMS / 2; r++) {
        u32 pair = r * THREADS + threadIdx.x, half = span / 2;
        u32 group = pair / half * span, place = pair & (half - 1);
        u32 low = group + place, high = mirrored ? group + span - 1 - place : low + half;
        if (high < count) {
            KeyBits a = tile.codes[low], b = tile.codes[high];
            u16 i = tile.items[low], j = tile.items[high];
            if (b < a || (b == a && j < i)) {
                tile.codes[low] = b;
                tile.codes[high] = a;
                tile.items[low] = j;
                tile.items[high] = i;
            }
        }
    }
}

/// Pairs of a span up to 64 stay within one warp's items.
TENON_DEVICE void step_barrier(u32 span_before, u32 span) {
    if (max_of(span_before, span) > 64) __syncthreads();
    else __syncwarp();
}

/// Sorts tiles, segments, or finishes a stage of a larger sort within tiles.
TENON_KERNEL_BOUNDS(bitonic_tiles, TilesParams, THREADS, 1) {
    TENON_SHARED(Tile, tile);
    u64 start = p.offsets ? p.offsets[blockIdx.x] : (u64)blockIdx.x * TILE;
    u64 end = p.offsets ? p.offsets[blockIdx.x + 1] : min_of<u64>(start + TILE, p.items);
    if (end - start > TILE) return;  // a segment that the caller sorts otherwise
    u32 count = (u32)(end - start);
    KEY keys[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < count) {
            tile.codes[at] = compared(p.keys_in[start + at], p.code);
            tile.items[at] = (u16)at;
        }
    }
    __syncthreads();
    u32 before = TILE;
    for (u32 span = p.span ? TILE : 2; span <= TILE && (p.span || span / 2 < count); span *= 2) {
        if (p.span == 0) {
            step_barrier(before, span);
            tile_step(tile, span, true, count);
            before = span;
        }
        for (u32 inner = p.span ? span : span / 2; inner > 1; inner /= 2) {
            step_barrier(before, inner);
            tile_step(tile, inner, false, count);
            before = inner;
        }
    }
    __syncthreads();
    // Everything is read before anything is written: input and output may be the same.
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < count) keys[i] = p.keys_in[start + tile.items[at]];
    }
#if PAYLOAD_BYTES
    Payload payload[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < count) {
            u64 item = start + tile.items[at];
            payload[i] = p.payload_in ? p.payload_in[item] : (Payload)item;
        }
    }
#endif
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < count) {
            if (p.keys_out) p.keys_out[start + at] = keys[i];
#if PAYLOAD_BYTES
            p.payload_out[start + at] = payload[i];
#endif
        }
    }
}

/// One step over device memory, for spans above a tile; a thread a pair.
TENON_KERNEL_BOUNDS(bitonic_step, StepParams, THREADS, 1) {
    u64 half = p.span / 2;
    for (u64 pair = global_thread(); pair < p.items; pair += grid_threads()) {
        u64 group = pair / half * p.span, place = pair & (half - 1);
        u64 low = group + place, high = p.mirrored ? group + p.span - 1 - place : low + half;
        if (group >= p.items) return;
        if (high >= p.items) continue;
        KEY a = p.keys[low], b = p.keys[high];
        if (compared(b, p.code) < compared(a, p.code)) {
            p.keys[low] = b;
            p.keys[high] = a;
#if PAYLOAD_BYTES
            Payload v = p.payload[low];
            p.payload[low] = p.payload[high];
            p.payload[high] = v;
#endif
        }
    }
}
