// Prefix scan in one pass. Specialised by IN, OUT (the accumulator), REDUCTION (Sum, Least, Greatest), INCLUSIVE,
// and the shape: SHAPE_THREADS, SHAPE_PACKS of 16 bytes a thread, SHAPE_BLOCKS a multiprocessor,
// PIPELINED (0 or 1).
#include "lookback.cuh"
#include "ops.cuh"
#include "tile.cuh"

struct ScanParams {
    const IN* input;
    u64 items, identity, tiles;
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

/// Scans one tile that the block's threads have loaded.
TENON_DEVICE void scan_tile(const ScanParams& p, u64 tile, u32 valid, const IN (&items)[PACKS][V], Prefixes& prefixes) {
    REDUCTION op;
    OUT identity = from_words<OUT>(p.identity, 0);
    u32 lane = lane_id();

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
        OUT prefix = tile_prefix(TileStates<OUT>{p.states}, tile, aggregate, op, identity);
        if (lane == 0) {
            prefixes.tile = prefix;
            if (p.total && tile == p.tiles - 1) *p.total = op(prefix, aggregate);
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
    store_strip(p.output + tile * TILE, valid, results);
}

#if PIPELINED
// Blocks stay, and take every `gridDim.x`-th tile: the next tile is on its way to shared memory, each thread's packs to
// places of its own, while this one waits for the tiles before it and is written.
TENON_KERNEL_BOUNDS(scan, ScanParams, SHAPE_THREADS, SHAPE_BLOCKS) {
    TENON_SHARED(Prefixes, prefixes);
    TENON_SHARED_ARRAY(U64x2, ahead, SHAPE_THREADS * PACKS * V * sizeof(IN) / 16);
    constexpr u32 PACK_BYTES = V * sizeof(IN);
    u8* mine = (u8*)ahead + threadIdx.x * PACK_BYTES;
    bool is_vector = is_aligned(p.input, PACK_BYTES);
    auto fetch = [&](u64 tile) {
        if (!is_vector || tile >= p.tiles || (tile + 1) * TILE > p.items) return;
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
            const IN* from = p.input + tile * TILE + pack_start<V, PACKS>(i);
            copy_async<PACK_BYTES>(mine + i * SHAPE_THREADS * PACK_BYTES, from);
        }
    };
    fetch(blockIdx.x);
    for (u64 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        u32 valid = (u32)min_of(TILE, p.items - tile * TILE);
        IN items[PACKS][V];
        if (is_vector && valid == TILE) {
            copy_async_wait();
#pragma unroll
            for (int i = 0; i < PACKS; i++) load_items((const IN*)(mine + i * SHAPE_THREADS * PACK_BYTES), items[i]);
        } else {
            load_strip(p.input + tile * TILE, valid, items, (IN)from_words<OUT>(p.identity, 0));
        }
        fetch(tile + gridDim.x);
        scan_tile(p, tile, valid, items, prefixes);
        __syncthreads();
    }
}
#else
TENON_KERNEL_BOUNDS(scan, ScanParams, SHAPE_THREADS, SHAPE_BLOCKS) {
    TENON_SHARED(Prefixes, prefixes);
    u64 first = blockIdx.x * TILE;
    u32 valid = (u32)min_of(TILE, p.items - first);
    IN items[PACKS][V];
    load_strip(p.input + first, valid, items, (IN)from_words<OUT>(p.identity, 0));
    scan_tile(p, blockIdx.x, valid, items, prefixes);
}
#endif
