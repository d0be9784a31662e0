// Radix partitioning by hash (He 2008, section 4.3; Lutz 2022, section 4): tuples of equal upper hash bits side by
// side, in any order within a partition.
//
//   partition_histogram  one read of the keys counts all partitions of all passes (of more than 2^15: several reads)
//   partition_cursors    of each pass, from the first places of the partitions
//   partition_pieces     cuts the partitions of the first pass into tiles of the second
//   partition_pass       a tile: load -> rank by an atomic of the bin's counter -> take the bins' places in the output
//                        from global cursors -> exchange through shared memory -> write runs of equal bins
//
// A join needs less than a sort: no stable order, so no look-back between tiles, and one counter a bin and block, so
// that bins may be thousands. Runs of a few tuples meet those of other tiles in the L2 cache.
//
// Macros: those of join_hash.cuh; VALUE, BITS, FIRST (1: reads columns, 0: reads tuples), THREADS, ITEMS, BLOCKS.
#include "join_hash.cuh"
#include "block.cuh"
#include "tile.cuh"

constexpr u32 BINS = 1u << BITS, TILE = THREADS * ITEMS;
constexpr u32 OWN = (BINS + THREADS - 1) / THREADS;  // bins of a thread
static_assert(TILE < 65536 && BITS <= 15, "places and bins take 16 bits");

struct HistogramParams {
    const KEY* keys;
    u64 items;
    u32* counts;
    u32 bits, shared_bits;
};
struct CursorsParams {
    const u32* offsets;
    u32* cursors;  // [partitions]: of the last pass
    u32* first;    // null, or [partitions >> second_bits]: of the first pass of two
    u32 partitions, second_bits;
};
struct PiecesParams {
    const u32* offsets;
    Piece* pieces;
    u32* count;  // zeroed
    u32 partitions, second_bits, tile, unused;
};
struct PassParams {
    const KEY* keys;
    const VALUE* values;  // null: the tuple's number
    const Tuple* tuples;
    const Piece* pieces;
    const u32* piece_count;
    Tuple* output;
    u32* cursors;
    u64 items;
    u32 shift, unused;
};

struct NumberParams {
    Tuple* tuples;
    u32* values;
    u64 items;
};

/// Each row of the grid counts as many partitions as fit shared memory.
TENON_KERNEL(partition_histogram, HistogramParams) {
    TENON_DYNAMIC_SHARED(u32, counts);
    u32 bins = 1u << min_of<u32>(p.bits, p.shared_bits), shift = 32 - p.bits, first = blockIdx.y * bins;
    for (u32 i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for_each_item<4>(p.keys, p.items, [&](KEY key) {
        u32 bin = (hash_of(key) >> shift) - first;
        if (bin < bins) atomicAdd(&counts[bin], 1u);
    });
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins; i += blockDim.x) {
        u32 count = counts[i];
        if (count) atomicAdd(&p.counts[first + i], count);
    }
}

TENON_KERNEL(partition_cursors, CursorsParams) {
    u32 i = (u32)global_thread();
    if (i >= p.partitions) return;
    u32 place = p.offsets[i];
    p.cursors[i] = place;
    if (p.first && (i & ((1u << p.second_bits) - 1)) == 0) p.first[i >> p.second_bits] = place;
}

/// Tuples get their places as values; their values, which are row numbers, go out.
TENON_KERNEL(number_by_place, NumberParams) {
    for (u64 i = global_thread(); i < p.items; i += grid_threads()) {
        p.values[i] = (u32)p.tuples[i].value;
        p.tuples[i].value = (WORD)i;
    }
}

/// A warp a partition.
TENON_KERNEL(partition_pieces, PiecesParams) {
    u32 partition = (u32)(global_thread() / 32), lane = lane_id();
    if (partition >= p.partitions) return;
    u32 from = p.offsets[partition << p.second_bits], to = p.offsets[(partition + 1) << p.second_bits];
    u32 tiles = ceil_div(to - from, p.tile), place = 0;
    if (lane == 0 && tiles) place = atomicAdd(p.count, tiles);
    place = shuffle(place, 0);
    for (u32 i = lane; i < tiles; i += 32) {
        u32 start = from + i * p.tile;
        p.pieces[place + i] = Piece{start, to - start > p.tile ? start + p.tile : to, partition, 0};
    }
}

#if FIRST
TENON_DEVICE u32 tiles_of(const PassParams& p) { return (u32)ceil_div<u64>(p.items, TILE); }
TENON_DEVICE Piece tile_at(const PassParams& p, u32 tile) {
    return Piece{tile * TILE, (u32)min_of<u64>(p.items, ((u64)tile + 1) * TILE), 0, 0};
}
#else
TENON_DEVICE u32 tiles_of(const PassParams& p) { return *p.piece_count; }
TENON_DEVICE Piece tile_at(const PassParams& p, u32 tile) { return p.pieces[tile]; }
#endif

TENON_DEVICE void load_tile(const PassParams& p, const Piece& tile, Tuple (&tuples)[ITEMS]) {
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = tile.from + i * THREADS + threadIdx.x;
        if (at >= tile.to) continue;
#if FIRST
        tuples[i].key = p.keys[at];
        tuples[i].value = p.values ? (WORD)p.values[at] : (WORD)at;
#else
        tuples[i] = p.tuples[at];
#endif
    }
}

/// First places of the bins in the tile: by one warp while they are few.
TENON_DEVICE void scan_bins(const u32* counts, u16* starts, BlockStorage<u32>& storage) {
    constexpr bool ONE_WARP = BINS <= 1024;
    constexpr u32 PER = ONE_WARP ? (BINS + 31) / 32 : OWN;
    if (ONE_WARP && warp_id() > 0) return;
    u32 count[PER], sum = 0;
#pragma unroll
    for (u32 b = 0; b < PER; b++) {
        u32 bin = threadIdx.x * PER + b;
        count[b] = bin < BINS ? counts[bin] : 0;
        sum += count[b];
    }
    u32 total, place;
    if (ONE_WARP) place = warp_inclusive_scan(sum, Sum()) - sum;
    else place = block_exclusive_scan(sum, Sum(), 0u, storage, total);
#pragma unroll
    for (u32 b = 0; b < PER; b++) {
        u32 bin = threadIdx.x * PER + b;
        if (bin < BINS) starts[bin] = (u16)place;
        place += count[b];
    }
}

/// Blocks stay, and load their next tile while they write one: its registers are free by then.
TENON_KERNEL_BOUNDS(partition_pass, PassParams, THREADS, BLOCKS) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(BlockStorage<u32>, storage);
    Tuple* staged = reinterpret_cast<Tuple*>(dynamic);
    u32* counts = reinterpret_cast<u32*>(dynamic + TILE * sizeof(Tuple));  // [BINS]; later where a bin's tuples go
    u16* starts = reinterpret_cast<u16*>(counts + BINS);                   // [BINS]: first place in the tile
    auto bin_of = [&](const Tuple& tuple) { return hash_of((KEY)tuple.key) >> p.shift & (BINS - 1); };
    const u32 tiles = tiles_of(p);
    u32 number = blockIdx.x;
    if (number >= tiles) return;
    Piece tile = tile_at(p, number);
    Tuple tuples[ITEMS];
    load_tile(p, tile, tuples);
    while (true) {
        const u32 valid = tile.to - tile.from;
        u32* cursors = p.cursors + ((u64)tile.partition << BITS);
        number += gridDim.x;
        Piece following = {};
        if (number < tiles) following = tile_at(p, number);
        for (u32 i = threadIdx.x; i < BINS; i += THREADS) counts[i] = 0;
        __syncthreads();

        u32 places[ITEMS];  // bin, then rank in the bin
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            places[i] = 0;
            if (i * THREADS + threadIdx.x >= valid) continue;
            u32 bin = bin_of(tuples[i]);
            places[i] = bin << 16 | atomicAdd(&counts[bin], 1u);
        }
        __syncthreads();

        // The answers of the cursors are on their way while the counts are scanned and the tuples exchanged.
        u32 to[OWN];
#pragma unroll
        for (u32 b = 0; b < OWN; b++) {
            u32 bin = b * THREADS + threadIdx.x, count = bin < BINS ? counts[bin] : 0;
            to[b] = count ? atomicAdd(&cursors[bin], count) : 0;
        }
        scan_bins(counts, starts, storage);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i * THREADS + threadIdx.x >= valid) continue;
            staged[starts[places[i] >> 16] + (places[i] & 0xffffu)] = tuples[i];
        }
#pragma unroll
        for (u32 b = 0; b < OWN; b++) {
            u32 bin = b * THREADS + threadIdx.x;
            if (bin < BINS) counts[bin] = to[b] - starts[bin];
        }
        __syncthreads();
        if (number < tiles) load_tile(p, following, tuples);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 at = i * THREADS + threadIdx.x;
            if (at >= valid) continue;
            Tuple tuple = staged[at];
            p.output[counts[bin_of(tuple)] + at] = tuple;
        }
        if (number >= tiles) return;
        tile = following;
        __syncthreads();
    }
}
