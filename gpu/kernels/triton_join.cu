// The join of chunks with a table in device memory (Lutz 2022, section 5).
//
//   build      a chunk of build rows goes into the table; rows without place are marked as spilled
//   store      a chunk of build rows goes to its place in a chained table
//   link       rows of a chained table, in place, are linked
//   probe      a chunk of probe rows meets the table; rows whose partition has spilled build rows are marked as spilled
//   write_one  the pairs of one probe row, in windows
//
// A partition is mixed where build rows were spilled: its probe rows meet the cached build rows here, and the spilled
// ones when their partition is joined. So each pair comes out once, whichever rows found no place.
//
// Macros: those of triton.cuh; MODE (2 mark, 3 write pairs, 4 count and sum of products), OUT (u32, u64: what a pair's
// values are written as), HAS_RESIDUAL.
#include "triton.cuh"
#include "residual_params.cuh"

constexpr u32 THREADS = tuning::TRITON_THREADS, ITEMS = tuning::TRITON_ITEMS, TILE = THREADS * ITEMS;

struct BuildParams {
    const KEY* keys;
    const BUILD_VALUE* values;  // null: row numbers from `first_row`
    u64 items, first_row;
    u32* spilled;     // a bit a row of the chunk
    u32* counts;      // [partitions], zero before: spilled rows
    u8* mixed;        // [2][partitions]: set where rows were spilled that are not to be cached, and that are
    u32* duplicates;  // set if a key came twice
    Table table;
};
struct StoreParams {
    const KEY* keys;
    const BUILD_VALUE* values;  // null: row numbers from `first_row`
    u64 items, first_row;
    KEY* keys_out;
    BUILD_VALUE* values_out;
};
struct LinkParams {
    u64 from, to;
    Table table;
};
struct ProbeParams {
    const KEY* keys;
    const PROBE_VALUE* values;  // null: row numbers from `first_row`
    u64 from, to;               // rows of the chunk
    u64 first_row;
    u32* spilled;     // a bit a row of the chunk; null: none are
    u32* counts;      // [partitions], zero before: spilled rows
    const u8* mixed;  // [2][partitions]
    u64* count;       // pairs: the number of all, also of those beyond the capacity
    u64* sum;         // MODE 4: of products, modulo 2^64
    OUT* build_out;
    OUT* probe_out;
    u64 capacity;
    u32* build_flags;  // a bit a row, set where it has a partner; null: not wanted
    u32* probe_flags;
    u64 window_from, window_to;  // write_one: of the row's pairs
    Table table;
    ResidualParams residual;
};

/// Marks rows as spilled: all lanes of a warp together, for 32 consecutive rows.
TENON_DEVICE void mark_spilled(u32* spilled, u64 at, u64 end, bool is_spilled) {
    u32 lanes = __ballot_sync(FULL_WARP, is_spilled);
    if (lane_id() == 0 && at < end) spilled[at >> 5] = lanes;
}

/// Adds a block's counts to those of the chunk.
TENON_DEVICE void add_counts(u32* counts, const u32* of_block, u32 partitions) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < partitions; i += blockDim.x) {
        if (of_block[i]) atomicAdd(&counts[i], of_block[i]);
    }
}

TENON_KERNEL_BOUNDS(build, BuildParams, THREADS, 4) {
    TENON_DYNAMIC_SHARED(u32, counts);
    for (u32 i = threadIdx.x; i < p.table.partitions.count; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    bool duplicate = false;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = (u64)blockIdx.x * TILE + i * THREADS + threadIdx.x;
        bool is_spilled = false;
        if (at < p.items) {
            KEY key = p.keys[at];
            BUILD_VALUE value = p.values ? p.values[at] : (BUILD_VALUE)(p.first_row + at);
            u32 partition = p.table.partitions.of(key);
            bool is_cached = p.table.is_cached(key);
            is_spilled = !is_cached || !p.table.insert(key, value, duplicate);
            if (is_spilled) {
                atomicAdd(&counts[partition], 1u);
                p.mixed[partition + (is_cached ? p.table.partitions.count : 0)] = 1;
            }
        }
        mark_spilled(p.spilled, at, p.items, is_spilled);
    }
    if (duplicate) *p.duplicates = 1;
    add_counts(p.counts, counts, p.table.partitions.count);
}

TENON_KERNEL_BOUNDS(store, StoreParams, THREADS, 4) {
    for (u64 at = global_thread(); at < p.items; at += grid_threads()) {
        p.keys_out[at] = p.keys[at];
        p.values_out[at] = p.values ? p.values[at] : (BUILD_VALUE)(p.first_row + at);
    }
}

TENON_KERNEL_BOUNDS(link, LinkParams, THREADS, 4) {
#if TABLE == TABLE_CHAINED
    for (u64 start = p.from + (u64)blockIdx.x * blockDim.x; start < p.to; start += grid_threads()) {
        u64 row = start + threadIdx.x;
        p.table.link((u32)row, row < p.to);
    }
#endif
}

TENON_DEVICE void set_bit(u32* bits, u64 at) {
    u32 bit = 1u << (at & 31);
    if (!(ld_relaxed(&bits[at >> 5]) & bit)) atomicOr(&bits[at >> 5], bit);
}

/// Whether an earlier look-up of the same key has flagged this build row: it flags all others of the key, too.
TENON_DEVICE bool is_flagged(const ProbeParams& p, BUILD_VALUE build) {
    return !HAS_RESIDUAL && p.build_flags && ld_relaxed(&p.build_flags[(u64)build >> 5]) >> ((u64)build & 31) & 1;
}

TENON_DEVICE bool holds(const ProbeParams& p, BUILD_VALUE build, PROBE_VALUE probe) {
#if HAS_RESIDUAL
    return residual(p.residual, (u32)build, (u32)probe);
#else
    return true;
#endif
}

TENON_DEVICE void flag(const ProbeParams& p, BUILD_VALUE build, PROBE_VALUE probe) {
    if (p.build_flags) set_bit(p.build_flags, build);
    if (p.probe_flags) set_bit(p.probe_flags, probe);
}

/// Sums over the block's threads, added to the result by one of them.
TENON_DEVICE void add_sum(u64* to, u64 value, BlockStorage<u64>& storage) {
    value = block_reduce(value, Sum(), (u64)0, storage);
    if (threadIdx.x == 0 && value) atomicAdd(to, value);
}

TENON_KERNEL_BOUNDS(probe, ProbeParams, THREADS, 4) {
    TENON_DYNAMIC_SHARED(u32, counts);
    TENON_SHARED(BlockStorage<u64>, storage);
    TENON_SHARED(u64, block_place);
    const u32 partitions = p.spilled ? p.table.partitions.count : 0;
    for (u32 i = threadIdx.x; i < partitions; i += blockDim.x) counts[i] = 0;
    __syncthreads();

    KEY keys[ITEMS];
    PROBE_VALUE values[ITEMS];
    const u64 start = p.from + (u64)blockIdx.x * TILE;
    const bool unique = p.table.is_unique();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = start + i * THREADS + threadIdx.x;
        if (at < p.to) {
            keys[i] = p.keys[at];
            values[i] = p.values ? p.values[at] : (PROBE_VALUE)(p.first_row + at);
        }
    }
    u64 found = 0, sum = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = start + i * THREADS + threadIdx.x;
        bool valid = at < p.to;
        if (p.spilled) {
            bool is_spilled = false;
            if (valid) {
                u32 partition = p.table.partitions.of(keys[i]);
                valid = p.table.is_cached(keys[i]);
                is_spilled = p.mixed[partition + (valid ? partitions : 0)];
                if (is_spilled) atomicAdd(&counts[partition], 1u);
            }
            mark_spilled(p.spilled, at, p.to, is_spilled);
        }
        if (!valid) continue;
#if MODE == 4 && TABLE == TABLE_CHAINED && GROUPED
        u32 row = p.table.find(keys[i]);
        if (row != NONE) {
            found += p.table.groups[row];
            sum += p.table.sums[row] * (u64)values[i];
        }
#else
        p.table.for_each(keys[i], unique, [&](BUILD_VALUE build) {
            if (!holds(p, build, values[i])) return true;
            found++;
            if (MODE == 4) sum += (u64)build * (u64)values[i];
            if (MODE != 2) return true;
            bool done = !p.build_flags || is_flagged(p, build);
            flag(p, build, values[i]);
            return !done;
        });
#endif
    }
    if (p.spilled) add_counts(p.counts, counts, partitions);
    if (MODE == 4) {
        __syncthreads();
        add_sum(p.count, found, storage);
        add_sum(p.sum, sum, storage);
    }
#if MODE == 3
    __syncthreads();
    u64 total;
    u64 place = block_exclusive_scan(found, Sum(), (u64)0, storage, total);
    if (total == 0) return;
    if (threadIdx.x == 0) block_place = atomicAdd(p.count, total);
    __syncthreads();
    place += block_place;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = start + i * THREADS + threadIdx.x;
        if (at >= p.to || (p.spilled && !p.table.is_cached(keys[i]))) continue;
        p.table.for_each(keys[i], unique, [&](BUILD_VALUE build) {
            if (!holds(p, build, values[i])) return true;
            flag(p, build, values[i]);
            if (place < p.capacity) {
                p.build_out[place] = (OUT)build;
                p.probe_out[place] = (OUT)values[i];
            }
            place++;
            return true;
        });
    }
#endif
}

/// The pairs of row `from` of the chunk whose number is within the window; one thread.
TENON_KERNEL(write_one, ProbeParams) {
    if (global_thread() > 0) return;
    KEY key = p.keys[p.from];
    PROBE_VALUE value = p.values ? p.values[p.from] : (PROBE_VALUE)(p.first_row + p.from);
    u64 number = 0;
    p.table.for_each(key, p.table.is_unique(), [&](BUILD_VALUE build) {
        if (!holds(p, build, value)) return true;
        if (number >= p.window_from) {
            p.build_out[number - p.window_from] = (OUT)build;
            p.probe_out[number - p.window_from] = (OUT)value;
        }
        return ++number < p.window_to;
    });
    *p.count = number;
}
