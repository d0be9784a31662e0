// Prefix scan in one pass. Specialised by IN, OUT (the accumulator), REDUCTION (Sum, Least, Greatest), INCLUSIVE,
// and the shape: SHAPE_THREADS, SHAPE_PACKS of 16 bytes a thread, SHAPE_BLOCKS a multiprocessor.
#include "lookback.cuh"
#include "ops.cuh"
#include "tile.cuh"

struct ScanParams {
    const IN* input;
    u64 items, identity;
    u64* states;
    OUT* output;
    OUT* total;
};

constexpr int V = pack_items(wider<IN, OUT>()), PACKS = SHAPE_PACKS, WARPS = SHAPE_THREADS / 32;
constexpr u64 TILE = (u64)SHAPE_THREADS * PACKS * V;

struct Prefixes {
    OUT warps[WARPS];
    OUT tile;
};

TENON_KERNEL_BOUNDS(scan, ScanParams, SHAPE_THREADS, SHAPE_BLOCKS) {
    TENON_SHARED(Prefixes, prefixes);
    REDUCTION op;
    OUT identity = from_words<OUT>(p.identity, 0);
    u64 first = blockIdx.x * TILE;
    u32 valid = (u32)min_of(TILE, p.items - first), lane = lane_id();
    IN items[PACKS][V];
    load_strip(p.input + first, valid, items, (IN)identity);

    // Within the warp: before[i] is the reduction over what precedes this lane's pack i.
    OUT before[PACKS], inclusive[PACKS], warp_total = identity;
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        OUT sum = (OUT)items[i][0];
#pragma unroll
        for (int j = 1; j < V; j++) sum = op(sum, (OUT)items[i][j]);
        inclusive[i] = warp_inclusive_scan(sum, op);
    }
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        OUT exclusive = shuffle(inclusive[i], lane == 0 ? 0 : lane - 1);
        before[i] = op(warp_total, lane == 0 ? identity : exclusive);
        warp_total = op(warp_total, shuffle(inclusive[i], 31));
    }

    // Across warps and tiles.
    if (lane == 0) prefixes.warps[warp_id()] = warp_total;
    __syncthreads();
    if (warp_id() == 0) {
        OUT scanned = warp_inclusive_scan(lane < WARPS ? prefixes.warps[lane] : identity, op);
        OUT exclusive = shuffle(scanned, lane == 0 ? 0 : lane - 1), aggregate = shuffle(scanned, 31);
        if (lane < WARPS) prefixes.warps[lane] = lane == 0 ? identity : exclusive;
        OUT prefix = tile_prefix(TileStates<OUT>{p.states}, blockIdx.x, aggregate, op, identity);
        if (lane == 0) {
            prefixes.tile = prefix;
            if (p.total && blockIdx.x == gridDim.x - 1) *p.total = op(prefix, aggregate);
        }
    }
    __syncthreads();
    OUT warp_prefix = op(prefixes.tile, prefixes.warps[warp_id()]);

    OUT results[PACKS][V];
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        OUT running = op(warp_prefix, before[i]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            OUT next = op(running, (OUT)items[i][j]);
            results[i][j] = INCLUSIVE ? next : running;
            running = next;
        }
    }
    store_strip(p.output + first, valid, results);
}
