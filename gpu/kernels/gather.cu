// Gather and scatter of elements of 1, 2, 4, 8 or 16 bytes. Specialised by ITEM, an unsigned type, and INDEX.
#include "ops.cuh"
#include "tile.cuh"

struct GatherParams {
    const ITEM* source;
    const INDEX* indexes;
    u64 items, source_items, missing_low, missing_high;
    ITEM* output;
};
struct ScatterParams {
    const ITEM* input;
    const INDEX* indexes;
    u64 items, output_items;
    ITEM* output;
};

constexpr int V = pack_items(wider<ITEM, INDEX>());
constexpr int PACKS = tuning::GATHER_ITEMS / V;
constexpr u64 TILE = (u64)tuning::GATHER_THREADS * PACKS * V;

TENON_KERNEL_BOUNDS(gather, GatherParams, tuning::GATHER_THREADS, 1) {
    u64 first = blockIdx.x * TILE;
    u32 valid = (u32)min_of(TILE, p.items - first);
    INDEX indexes[PACKS][V];
    load_strip(p.indexes + first, valid, indexes, (INDEX)~(INDEX)0);
    ITEM items[PACKS][V], missing = from_words<ITEM>(p.missing_low, p.missing_high);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
#pragma unroll
        for (int j = 0; j < V; j++) items[i][j] = indexes[i][j] < p.source_items ? p.source[indexes[i][j]] : missing;
    }
    store_strip(p.output + first, valid, items);
}

TENON_KERNEL_BOUNDS(scatter, ScatterParams, tuning::GATHER_THREADS, 1) {
    u64 first = blockIdx.x * TILE;
    u32 valid = (u32)min_of(TILE, p.items - first);
    INDEX indexes[PACKS][V];
    ITEM items[PACKS][V];
    load_strip(p.indexes + first, valid, indexes, (INDEX)~(INDEX)0);
    load_strip(p.input + first, valid, items, (ITEM)0);
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            u32 at = pack_start<V, PACKS>(i) + j;
            if (at < valid && indexes[i][j] < p.output_items) p.output[indexes[i][j]] = items[i][j];
        }
    }
}
