// Partitioning a chunk within device memory, for the rows of it that are spilled (Lutz 2022, section 4): rows of a
// partition side by side, so that each partition's share of the chunk is one run, and all of them leave by one copy.
//
//   spill_plan     first place of each partition's run
//   spill_scatter  a tile: load -> rank by an atomic of the partition's counter -> take the runs' places from global
//                  cursors -> exchange through shared memory -> write, column by column
//
// Macros: KEY, VALUE.
#include "block.cuh"
#include "triton_hash.cuh"

constexpr u32 THREADS = tuning::TRITON_SPILL_THREADS, ITEMS = tuning::TRITON_SPILL_ITEMS, TILE = THREADS * ITEMS;
constexpr u64 WIDTH = sizeof(KEY) > sizeof(VALUE) ? sizeof(KEY) : sizeof(VALUE);

struct SpillPlanParams {
    u32* counts;   // [partitions]: spilled rows; zero afterwards
    u32* offsets;  // [partitions + 1]
    u32* offsets_on_host;  // the same in pinned memory: a copy would wait for those of spilled rows
    u32* cursors;  // [partitions]
    u32 partitions, unused;
};
struct SpillScatterParams {
    const KEY* keys;
    const VALUE* values;  // null: row numbers from `first_row`
    u64 items, first_row;
    const u32* spilled;   // a bit a row
    const u32* offsets;
    u32* cursors;
    KEY* keys_out;
    VALUE* values_out;
    Partitioning partitions;
};

/// One block: each thread sums consecutive partitions.
TENON_KERNEL(spill_plan, SpillPlanParams) {
    TENON_SHARED(BlockStorage<u32>, storage);
    u32 own = ceil_div(p.partitions, blockDim.x);
    u32 from = min_of(threadIdx.x * own, p.partitions), to = min_of(from + own, p.partitions);
    u32 sum = 0, total;
    for (u32 i = from; i < to; i++) sum += p.counts[i];
    u32 place = block_exclusive_scan(sum, Sum(), 0u, storage, total);
    for (u32 i = from; i < to; i++) {
        p.offsets[i] = place;
        p.offsets_on_host[i] = place;
        p.cursors[i] = place;
        place += p.counts[i];
        p.counts[i] = 0;
    }
    if (threadIdx.x == 0) p.offsets[p.partitions] = p.offsets_on_host[p.partitions] = total;
}

TENON_KERNEL_BOUNDS(spill_scatter, SpillScatterParams, THREADS, 2) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(BlockStorage<u32>, storage);
    const u32 partitions = p.partitions.count, thread = threadIdx.x;
    if (p.offsets[partitions] == 0) return;
    u8* staged = dynamic;                                            // [TILE] of keys, then of values
    u32* counts = reinterpret_cast<u32*>(dynamic + TILE * WIDTH);    // [partitions]; later where a run's rows go
    u16* starts = reinterpret_cast<u16*>(counts + partitions);       // [partitions]: first place in the tile
    u16* bins = starts + (partitions + (partitions & 1));            // [TILE]: partition of each place
    const u64 start = (u64)blockIdx.x * TILE;
    const KEY* keys_in = p.keys + start;

    for (u32 i = thread; i < partitions; i += THREADS) counts[i] = 0;
    __syncthreads();
    KEY keys[ITEMS];
    u32 places[ITEMS];  // partition, then rank in it; all bits set: not spilled
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = start + i * THREADS + thread;
        places[i] = ~0u;
        if (at >= p.items || !(p.spilled[at >> 5] >> (at & 31) & 1)) continue;
        keys[i] = keys_in[i * THREADS + thread];
        u32 partition = p.partitions.of(keys[i]);
        places[i] = partition << 16 | atomicAdd(&counts[partition], 1u);
    }
    __syncthreads();

    u32 own = ceil_div(partitions, THREADS);
    u32 from = min_of(thread * own, partitions), to = min_of(from + own, partitions);
    u32 sum = 0, total;
    for (u32 i = from; i < to; i++) sum += counts[i];
    u32 running = block_exclusive_scan(sum, Sum(), 0u, storage, total);
    for (u32 i = from; i < to; i++) {
        u32 count = counts[i];
        starts[i] = (u16)running;
        counts[i] = (count ? atomicAdd(&p.cursors[i], count) : 0) - running;
        running += count;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (places[i] == ~0u) continue;
        u32 partition = places[i] >> 16;
        places[i] = starts[partition] + (places[i] & 0xffffu);
        bins[places[i]] = (u16)partition;
        reinterpret_cast<KEY*>(staged)[places[i]] = keys[i];
    }
    __syncthreads();
    for (u32 i = thread; i < total; i += THREADS) {
        p.keys_out[counts[bins[i]] + i] = reinterpret_cast<KEY*>(staged)[i];
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (places[i] == ~0u) continue;
        u32 at = i * THREADS + thread;
        reinterpret_cast<VALUE*>(staged)[places[i]] = p.values ? p.values[start + at] : (VALUE)(p.first_row + start + at);
    }
    __syncthreads();
    for (u32 i = thread; i < total; i += THREADS) {
        p.values_out[counts[bins[i]] + i] = reinterpret_cast<VALUE*>(staged)[i];
    }
}
