// Radix partitioning by hash (He 2008, section 4.3; Lutz 2022, section 4): tuples of equal upper hash bits side by
// side, in any order within a partition.
//
//   partition_histogram  one read of the keys counts all partitions of all passes
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
    u32 bits, unused;
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

TENON_KERNEL(partition_histogram, HistogramParams) {
    TENON_DYNAMIC_SHARED(u32, counts);
    u32 bins = 1u << p.bits, shift = 32 - p.bits;
    for (u32 i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for_each_item<4>(p.keys, p.items, [&](KEY key) { atomicAdd(&counts[hash_of(key) >> shift], 1u); });
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins; i += blockDim.x) {
        u32 count = counts[i];
        if (count) atomicAdd(&p.counts[i], count);
    }
}

TENON_KERNEL(partition_cursors, CursorsParams) {
    u32 i = (u32)global_thread();
    if (i >= p.partitions) return;
    u32 place = p.offsets[i];
    p.cursors[i] = place;
    if (p.first && (i & ((1u << p.second_bits) - 1)) == 0) p.first[i >> p.second_bits] = place;
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

template <bool FULL>
TENON_DEVICE void pass_tile(const PassParams& p, BlockStorage<u32>& storage, u8* dynamic, u64 start, u32 valid,
                            u32* cursors) {
    Tuple* staged = reinterpret_cast<Tuple*>(dynamic);
    u32* counts = reinterpret_cast<u32*>(dynamic + TILE * sizeof(Tuple));  // [BINS]; later where a bin's tuples go
    u16* starts = reinterpret_cast<u16*>(counts + BINS);                   // [BINS]: first place in the tile
    const u32 thread = threadIdx.x;
    auto bin_of = [&](const Tuple& tuple) { return hash_of((KEY)tuple.key) >> p.shift & (BINS - 1); };

    Tuple tuples[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + thread;
        if (!FULL && at >= valid) continue;
#if FIRST
        tuples[i].key = p.keys[start + at];
        tuples[i].value = p.values ? (WORD)p.values[start + at] : (WORD)(start + at);
#else
        tuples[i] = p.tuples[start + at];
#endif
    }
    for (u32 i = thread; i < BINS; i += THREADS) counts[i] = 0;
    __syncthreads();

    u32 places[ITEMS];  // bin, then rank in the bin
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        places[i] = 0;
        if (!FULL && i * THREADS + thread >= valid) continue;
        u32 bin = bin_of(tuples[i]);
        places[i] = bin << 16 | atomicAdd(&counts[bin], 1u);
    }
    __syncthreads();

    // The answers of the cursors are on their way while the block scans its counts.
    u32 count[OWN], to[OWN], sum = 0, total;
#pragma unroll
    for (u32 b = 0; b < OWN; b++) {
        u32 bin = thread * OWN + b;
        count[b] = BINS % THREADS == 0 || bin < BINS ? counts[bin] : 0;
        sum += count[b];
    }
#pragma unroll
    for (u32 b = 0; b < OWN; b++) to[b] = count[b] ? atomicAdd(&cursors[thread * OWN + b], count[b]) : 0;
    u32 in_tile = block_exclusive_scan(sum, Sum(), 0u, storage, total);
    u32 running = in_tile;
#pragma unroll
    for (u32 b = 0; b < OWN; b++) {
        if (BINS % THREADS == 0 || thread * OWN + b < BINS) starts[thread * OWN + b] = (u16)running;
        running += count[b];
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (!FULL && i * THREADS + thread >= valid) continue;
        staged[starts[places[i] >> 16] + (places[i] & 0xffffu)] = tuples[i];
    }
    running = in_tile;
#pragma unroll
    for (u32 b = 0; b < OWN; b++) {
        if (BINS % THREADS == 0 || thread * OWN + b < BINS) counts[thread * OWN + b] = to[b] - running;
        running += count[b];
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + thread;
        if (!FULL && at >= valid) continue;
        Tuple tuple = staged[at];
        p.output[counts[bin_of(tuple)] + at] = tuple;
    }
}

TENON_KERNEL_BOUNDS(partition_pass, PassParams, THREADS, BLOCKS) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(BlockStorage<u32>, storage);
#if FIRST
    u64 start = (u64)blockIdx.x * TILE;
    u32 valid = (u32)min_of<u64>(p.items - start, TILE);
    u32* cursors = p.cursors;
#else
    if (blockIdx.x >= *p.piece_count) return;
    Piece piece = p.pieces[blockIdx.x];
    u64 start = piece.from;
    u32 valid = piece.to - piece.from;
    u32* cursors = p.cursors + ((u64)piece.partition << BITS);
#endif
    if (valid == TILE) pass_tile<true>(p, storage, dynamic, start, valid, cursors);
    else pass_tile<false>(p, storage, dynamic, start, valid, cursors);
}
