// Select and compact in one pass, stable. Specialised by
//   SHAPE_THREADS, SHAPE_BLOCKS a multiprocessor: the shape; a block is a tile
//   ITEM           element type
//   CHOICE         0: by flags, 1: by the generated predicate.cuh, 2: items that differ from the one before
//   WRITE_ITEMS    1: write the items, WRITE_REJECTED: the others, too; INDEX with WRITE_INDEXES 1: their places
#include "literals.cuh"
#include "lookback.cuh"
#include "tile.cuh"

struct SelectParams {
    const ITEM* input;
    const u8* flags;
    u64 items;
    u64 literals[8];
    u64* states;
    ITEM* selected;
    u64 selected_capacity;
    ITEM* rejected;
    u64 rejected_capacity;
    INDEX* indexes;
    u64 indexes_capacity;
    u64* count;
};

#if CHOICE == 1
#include "predicate.cuh"
#endif

constexpr int V = pack_items(sizeof(ITEM), 4), PACKS = 4, WARPS = SHAPE_THREADS / 32;
constexpr u32 TILE = SHAPE_THREADS * PACKS * V;
static_assert(TILE <= 65536, "places in the tile fit 16 bits");

/// Bytes of shared memory an item takes while it is staged: itself, then its place.
constexpr u32 STAGED_BYTES = WRITE_ITEMS && (!WRITE_INDEXES || sizeof(ITEM) > 2) ? sizeof(ITEM) : 2;

/// Items of one warp that each of its four packs chose, a byte a pack: at most 128.
static_assert(V <= 4 && PACKS == 4, "counts of a pack fit a byte");
TENON_DEVICE u32 byte_of(u32 counts, int i) { return counts >> (8 * i) & 0xff; }

struct Found {
    u64 before;
    u32 warps[WARPS];
};

/// Bit `i * V + j` says whether item `j` of pack `i` is chosen.
TENON_DEVICE u32 choose(const SelectParams& p, u64 first, u32 valid, const ITEM (&items)[PACKS][V]) {
    u32 chosen = 0;
#if CHOICE == 0
    u8 flags[PACKS][V];
    load_strip(p.flags + first, valid, flags, (u8)0);
#elif CHOICE == 1
    Literals literal{p.literals};
#endif
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        u32 at = pack_start<V, PACKS>(i), lane = lane_id();
#if CHOICE == 2
        ITEM previous = shuffle(items[i][V - 1], lane == 0 ? 0 : lane - 1);
        if (i > 0) {
            ITEM last = shuffle(items[i > 0 ? i - 1 : 0][V - 1], 31);
            if (lane == 0) previous = last;
        } else if (lane == 0 && first + at > 0 && at < valid) {
            previous = p.input[first + at - 1];
        }
#endif
#pragma unroll
        for (int j = 0; j < V; j++) {
#if CHOICE == 0
            bool is_chosen = flags[i][j] != 0;
#elif CHOICE == 1
            bool is_chosen = at + j < valid && predicate(items[i][j], literal);
#else
            bool is_chosen = at + j < valid && (first + at + j == 0 || items[i][j] != previous);
            previous = items[i][j];
#endif
            chosen |= (u32)is_chosen << (i * V + j);
        }
    }
    return chosen;
}

TENON_KERNEL_BOUNDS(select, SelectParams, SHAPE_THREADS, SHAPE_BLOCKS) {
    TENON_SHARED(Found, found);
    TENON_SHARED_ARRAY(ITEM, staged, STAGED_BYTES * TILE / sizeof(ITEM));
    u16* staged_places = (u16*)staged;
    u64 first = (u64)blockIdx.x * TILE;
    u32 valid = (u32)min_of<u64>(TILE, p.items - first), lane = lane_id();
    TileCounts states{p.states};
    ITEM items[PACKS][V];
    load_strip(p.input + first, valid, items, (ITEM)0);
    u32 chosen = choose(p, first, valid, items);

    // Ranks within the warp, of all four packs in one scan.
    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < PACKS; i++) counts |= (u32)__popc(chosen >> (i * V) & ((1u << V) - 1)) << (8 * i);
    u32 inclusive = warp_inclusive_scan(counts, Sum()), exclusive = inclusive - counts;
    u32 warp_counts = shuffle(inclusive, 31);
    if (lane == 0) {
        u32 sum = 0;
        for (int i = 0; i < PACKS; i++) sum += byte_of(warp_counts, i);
        found.warps[warp_id()] = sum;
    }
    __syncthreads();

    // Ranks within the tile: each warp scans the warps' counts for itself.
    u32 of_warp = lane < WARPS ? found.warps[lane] : 0;
    u32 scanned = warp_inclusive_scan(of_warp, Sum());
    u32 tile_count = shuffle(scanned, 31), rank_of_pack = shuffle(scanned - of_warp, warp_id());
    if (threadIdx.x == 0) publish_aggregate(states, blockIdx.x, (u64)tile_count);

    // Compaction in shared memory, while the first warp waits for the tiles before.
    auto stage = [&](bool places) {
        u32 rank_before = rank_of_pack;
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
            u32 at = pack_start<V, PACKS>(i), rank = rank_before + byte_of(exclusive, i);
#pragma unroll
            for (int j = 0; j < V; j++) {
                if (chosen >> (i * V + j) & 1) {
                    if (places) staged_places[rank] = (u16)(at + j);
                    else staged[rank] = items[i][j];
                    rank++;
                } else if (WRITE_REJECTED && at + j < valid) {
                    staged[tile_count + at + j - rank] = items[i][j];
                }
            }
            rank_before += byte_of(warp_counts, i);
        }
    };
    stage(!WRITE_ITEMS);
    if (warp_id() == 0) {
        u64 before = look_back(states, blockIdx.x, (u64)tile_count, Sum(), (u64)0);
        if (lane == 0) found.before = before;
    }
    __syncthreads();

    // Consecutive writes.
    u64 before = found.before;
    if (WRITE_ITEMS) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < tile_count; i += blockDim.x) {
            if (before + i < p.selected_capacity) p.selected[before + i] = staged[i];
        }
    }
    if (WRITE_ITEMS && WRITE_INDEXES) {
        __syncthreads();
        stage(true);
        __syncthreads();
    }
    if (WRITE_INDEXES) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < tile_count; i += blockDim.x) {
            if (before + i < p.indexes_capacity) p.indexes[before + i] = (INDEX)(first + staged_places[i]);
        }
    }
    if (WRITE_REJECTED) {
        for (u32 i = threadIdx.x; i < valid - tile_count; i += blockDim.x) {
            u64 to = first - before + i;
            if (to < p.rejected_capacity) p.rejected[to] = staged[tile_count + i];
        }
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        u64 count = before + tile_count;
        *p.count = count;
        // Runs: where the last one ends.
        if (CHOICE == 2 && WRITE_INDEXES && count < p.indexes_capacity) p.indexes[count] = (INDEX)p.items;
    }
}
