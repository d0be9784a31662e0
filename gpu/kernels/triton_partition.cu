// Partitioners over an interconnect (Lutz 2022, section 4): columns in, tuples out, either in host or device memory.
//
// | ALGORITHM | writes |
// | --- | --- |
// | 0 Standard | each tuple by itself, where its tile's share of the partition begins |
// | 1 Linear | tiles ordered in shared memory: runs of as many tuples as the tile has of a partition |
// | 2 Shared | write-combining buffers in shared memory, one a partition and block: whole aligned buffers |
// | 3 Hierarchical | the same, with second buffers in device memory: larger pieces at a high fan-out |
//
// Whole buffers go to the front of a partition, so that they stay aligned; what is left at the end goes to its back.
//
// Macros: KEY, ALGORITHM, HASH_EQUAL.
#include "block.cuh"
#include "triton_hash.cuh"

typedef KEY Word;
struct alignas(2 * sizeof(Word)) Tuple {
    Word key, value;
};
constexpr u32 THREADS = tuning::TRITON_PARTITION_THREADS, ITEMS = tuning::TRITON_PARTITION_ITEMS;
constexpr u32 TILE = THREADS * ITEMS, WARPS = THREADS / 32, NONE_TAKEN = 0xffffffffu;

struct CountParams {
    const Word* keys;
    u64 items;
    u64* counts;  // [partitions], zero before
    u32 partitions, unused;
};
struct PartitionParams {
    const Word* keys;
    const Word* values;
    u64 items;
    Tuple* output;
    u64* fronts;   // [partitions]: next place from the front
    u64* backs;    // [partitions]: end of what is free
    Tuple* second; // ALGORITHM 3: [blocks][partitions + warps][second_size]
    u32 partitions;
    u32 size;         // tuples of a buffer in shared memory
    u32 second_size;  // tuples of a buffer in device memory: a multiple of `size`
    u32 unused;
};

TENON_DEVICE u32 partition_of(Word key, u32 partitions) { return (u32)hash_of(key) & (partitions - 1); }

/// Counts of partitions: the prefix sum's input (Lutz 2022, section 6.2.8).
TENON_KERNEL(partition_count, CountParams) {
    TENON_DYNAMIC_SHARED(u32, counts);
    for (u32 i = threadIdx.x; i < p.partitions; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        atomicAdd(&counts[partition_of(p.keys[at], p.partitions)], 1u);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < p.partitions; i += blockDim.x) {
        if (counts[i]) atomicAdd(&p.counts[i], (u64)counts[i]);
    }
}

#if ALGORITHM <= 1
/// A tile after the other: rank by an atomic of the partition's counter, then the tile's places by one global atomic a
/// partition.
TENON_KERNEL_BOUNDS(partition, PartitionParams, THREADS, 1) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    TENON_SHARED(BlockStorage<u32>, storage);
    Tuple* staged = reinterpret_cast<Tuple*>(dynamic);                       // Linear: [TILE]
    u64* places = reinterpret_cast<u64*>(dynamic + (ALGORITHM == 1 ? TILE * sizeof(Tuple) : 0));  // [partitions]
    u32* counts = reinterpret_cast<u32*>(places + p.partitions);             // [partitions]
    u32* starts = counts + p.partitions;                                     // Linear: [partitions]
    const u64 tiles = ceil_div(p.items, (u64)TILE);
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        u64 start = tile * TILE;
        u32 valid = (u32)min_of<u64>(p.items - start, TILE);
        for (u32 i = threadIdx.x; i < p.partitions; i += THREADS) counts[i] = 0;
        __syncthreads();
        Tuple tuples[ITEMS];
        u32 ranks[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 at = i * THREADS + threadIdx.x;
            if (at >= valid) continue;
            tuples[i] = Tuple{p.keys[start + at], p.values[start + at]};
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i * THREADS + threadIdx.x < valid) {
                ranks[i] = atomicAdd(&counts[partition_of(tuples[i].key, p.partitions)], 1u);
            }
        }
        __syncthreads();
        u32 own = ceil_div(p.partitions, THREADS), sum = 0, total;
        u32 from = min_of(threadIdx.x * own, p.partitions), to = min_of(from + own, p.partitions);
        for (u32 i = from; i < to; i++) sum += counts[i];
        u32 running = block_exclusive_scan(sum, Sum(), 0u, storage, total);
        for (u32 i = from; i < to; i++) {
            places[i] = counts[i] ? atomicAdd(&p.fronts[i], (u64)counts[i]) : 0;
            if (ALGORITHM == 1) {
                starts[i] = running;
                places[i] -= running;
            }
            running += counts[i];
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i * THREADS + threadIdx.x >= valid) continue;
            u32 partition = partition_of(tuples[i].key, p.partitions);
            if (ALGORITHM == 0) p.output[places[partition] + ranks[i]] = tuples[i];
            else staged[starts[partition] + ranks[i]] = tuples[i];
        }
        __syncthreads();
        if (ALGORITHM == 1) {
            for (u32 i = threadIdx.x; i < valid; i += THREADS) {
                Tuple tuple = staged[i];
                p.output[places[partition_of(tuple.key, p.partitions)] + i] = tuple;
            }
            __syncthreads();
        }
    }
}

#else

/// The buffers of a block.
struct Buffers {
    Tuple* tuples;    // [partitions][size]
    u32* fills;       // [partitions]: slots taken; at `size`, whoever took that many holds the buffer's lock
    u32* ready;       // [partitions]: slots written
    u32* second_fills;  // ALGORITHM 3, [partitions]: tuples in the second buffer
    u32* second_of;     // ALGORITHM 3, [partitions]: which second buffer
};

TENON_DEVICE Buffers buffers_at(u8* dynamic, const PartitionParams& p) {
    Buffers b;
    b.tuples = reinterpret_cast<Tuple*>(dynamic);
    b.fills = reinterpret_cast<u32*>(b.tuples + (u64)p.partitions * p.size);
    b.ready = b.fills + p.partitions;
    b.second_fills = b.ready + p.partitions;
    b.second_of = b.second_fills + p.partitions;
    return b;
}

TENON_DEVICE Tuple* second_buffer(const PartitionParams& p, u32 buffer) {
    return p.second + ((u64)blockIdx.x * (p.partitions + WARPS) + buffer) * p.second_size;
}

/// A warp writes `count` tuples to a place.
TENON_DEVICE void write_run(Tuple* to, const Tuple* from, u32 count) {
    for (u32 i = lane_id(); i < count; i += 32) to[i] = from[i];
}

/// One lane takes a place at the front of the partition; all lanes learn it.
TENON_DEVICE u64 take_front(const PartitionParams& p, u32 partition, u32 count) {
    u64 place = lane_id() == 0 ? atomicAdd(&p.fronts[partition], (u64)count) : 0;
    return shuffle(place, 0);
}

/// A warp empties the full buffer of a partition, whose lock it holds. `spare` is the warp's own second buffer.
TENON_DEVICE void flush(const PartitionParams& p, const Buffers& b, u32 partition, u32& spare) {
    while (ld_relaxed(&b.ready[partition]) != p.size) tenon_spin_pause();
    __threadfence_block();
    __syncwarp();
    const Tuple* tuples = b.tuples + (u64)partition * p.size;
#if ALGORITHM == 2
    write_run(p.output + take_front(p, partition, p.size), tuples, p.size);
    bool full = false;
#else
    u32 fill = b.second_fills[partition], buffer = b.second_of[partition];
    write_run(second_buffer(p, buffer) + fill, tuples, p.size);
    bool full = fill + p.size == p.second_size;
    __syncwarp();
    if (lane_id() == 0) {
        b.second_fills[partition] = full ? 0 : fill + p.size;
        if (full) b.second_of[partition] = spare;
    }
#endif
    __threadfence_block();
    __syncwarp();
    if (lane_id() == 0) {
        b.ready[partition] = 0;
        __threadfence_block();
        atomicExch(&b.fills[partition], 0u);
    }
#if ALGORITHM == 3
    // The lock is given back: others fill the fresh buffer while this one leaves.
    if (full) {
        write_run(p.output + take_front(p, partition, p.second_size), second_buffer(p, buffer), p.second_size);
        spare = buffer;
    }
#endif
    __syncwarp();
}

TENON_KERNEL_BOUNDS(partition, PartitionParams, THREADS, 1) {
    TENON_DYNAMIC_SHARED(u8, dynamic);
    const Buffers b = buffers_at(dynamic, p);
    for (u32 i = threadIdx.x; i < p.partitions; i += THREADS) {
        b.fills[i] = b.ready[i] = 0;
        if (ALGORITHM == 3) {
            b.second_fills[i] = 0;
            b.second_of[i] = i;
        }
    }
    u32 spare = p.partitions + warp_id();
    __syncthreads();
    // Each block takes its own part of the input.
    const u64 own = ceil_div(ceil_div(p.items, (u64)gridDim.x), (u64)THREADS) * THREADS;
    const u64 end = min_of<u64>(p.items, (blockIdx.x + 1) * own);
    for (u64 start = blockIdx.x * own; start < end; start += TILE) {
        Tuple tuples[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u64 at = start + i * THREADS + threadIdx.x;
            if (at < end) tuples[i] = Tuple{p.keys[at], p.values[at]};
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            bool done = start + i * THREADS + threadIdx.x >= end;
            u32 partition = done ? 0 : partition_of(tuples[i].key, p.partitions);
            while (!__all_sync(FULL_WARP, done)) {
                u32 slot = NONE_TAKEN;
                if (!done) {
                    slot = atomicAdd(&b.fills[partition], 1u);
                    if (slot < p.size) {
                        b.tuples[(u64)partition * p.size + slot] = tuples[i];
                        __threadfence_block();
                        atomicAdd(&b.ready[partition], 1u);
                        done = true;
                    }
                }
                u32 holders = __ballot_sync(FULL_WARP, slot == p.size);
                bool waits = !done && slot != p.size;
                while (holders) {
                    flush(p, b, shuffle(partition, (u32)__ffs((i32)holders) - 1), spare);
                    holders &= holders - 1;
                }
                if (waits) tenon_spin_pause();
            }
        }
    }
    __syncthreads();
    for (u32 i = warp_id(); i < p.partitions; i += WARPS) {
        u32 first = min_of(b.fills[i], p.size), second = ALGORITHM == 3 ? b.second_fills[i] : 0;
        if (first + second == 0) continue;
        u64 place = 0;
        if (lane_id() == 0) place = atomicSub(&p.backs[i], (u64)(first + second)) - (first + second);
        place = shuffle(place, 0);
        if (ALGORITHM == 3) write_run(p.output + place, second_buffer(p, b.second_of[i]), second);
        write_run(p.output + place + second, b.tuples + (u64)i * p.size, first);
    }
}
#endif
