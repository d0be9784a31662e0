// From spans to pairs, balanced for any mix of span lengths (He 2008, sections 4.2 and 4.3): neither one probe with a
// million partners nor a million probes without any unbalance the work, since a tile takes equally many steps of the
// merged sequence of pairs and ends of spans (merge path).
//
// With a residual condition the pairs of the spans are candidates. Their order is that of the positions, so the number of
// candidates that pass before a tile is the place of its first pair, and no position needs a place of its own.
//
// Macros: MODE, HAS_RESIDUAL.
#include "block.cuh"
#include "merge_path.cuh"
#include "residual_params.cuh"

#define MODE_WRITE 0    // pairs of a window of places
#define MODE_COUNT 1    // candidates that pass, by position and by tile
#define MODE_AT_ONCE 2  // pairs at places taken from a counter
#define MODE_MARK 3     // flags only

struct ExpandParams {
    const u32* starts;   // by position of the step
    const u64* offsets;  // positions + 1: pairs (candidates) before each position
    u64 positions;
    u64 first, last;     // pairs (candidates) to expand
    u64* splits;
    u64 tiles;
    const u32* build_rows;  // by build place; null: the place
    const u32* probe_rows;  // by position of the step; null: first_row + position
    u64 first_row;
    u32* build_out;
    u32* probe_out;
    u64 window_start, window_end;  // places that the outputs hold; only with a residual
    u32* counts;        // by position, zeros before
    u32* tile_counts;   // by tile
    const u64* tile_bases;
    u64* total;         // counter of MODE_AT_ONCE
    u8* build_flags;    // by row, or null
    u8* probe_flags;
    ResidualParams residual;
};
struct CoverParams {
    const u32* reach;  // the farthest end of the spans that start at or before each build place
    u64 items;
    const u32* build_rows;
    u8* build_flags;
};

constexpr u32 THREADS = tuning::EXPAND_THREADS, STEPS = tuning::EXPAND_STEPS, TILE = THREADS * STEPS;
constexpr u32 WARPS = THREADS / 32;

/// Pair `at` within the pairs to expand.
TENON_DEVICE u64 clipped(const ExpandParams& p, u64 at) {
    return (at < p.first ? p.first : at < p.last ? at : p.last) - p.first;
}

// splits[t]: positions that end before tile t.
TENON_KERNEL(expand_splits, ExpandParams) {
    u64 tile = global_thread();
    if (tile > p.tiles) return;
    u64 pairs = clipped(p, p.offsets[p.positions]), steps = min_of(tile * TILE, p.positions + pairs);
    p.splits[tile] =
        segments_within<u64>(steps, p.positions, pairs, [&](u64 i) { return clipped(p, p.offsets[i + 1]); });
}

TENON_KERNEL(cover, CoverParams) {
    for (u64 place = global_thread(); place < p.items; place += grid_threads()) {
        if (p.reach[place] > place) p.build_flags[p.build_rows ? p.build_rows[place] : place] = 1;
    }
}

struct ExpandShared {
    u32 ends[TILE + 1];    // of the tile's spans, in pairs of the tile
    u32 shifts[TILE + 1];  // build place of a span's pair less the pair's number in the tile
    u16 spans[TILE];       // the span of each pair
    u32 passed[STEPS * WARPS];
    BlockStorage<u32> block;
    u64 base;
};

TENON_KERNEL_BOUNDS(expand, ExpandParams, THREADS, 4) {
    TENON_SHARED(ExpandShared, s);
    u64 all_steps = p.positions + clipped(p, p.offsets[p.positions]);
    u64 step = min_of(blockIdx.x * (u64)TILE, all_steps), end_step = min_of(step + TILE, all_steps);
    u64 position0 = p.splits[blockIdx.x];
    u32 ended = (u32)(p.splits[blockIdx.x + 1] - position0), pairs = (u32)(end_step - step) - ended;
#if HAS_RESIDUAL && MODE == MODE_COUNT
    if (pairs == 0 && threadIdx.x == 0) p.tile_counts[blockIdx.x] = 0;
#endif
    if (pairs == 0) return;
#if HAS_RESIDUAL && MODE == MODE_WRITE
    u64 base = p.tile_bases[blockIdx.x];
    if (base >= p.window_end || p.tile_bases[blockIdx.x + 1] <= p.window_start) return;
#endif
    u64 pair0 = step - position0;
    for (u32 i = threadIdx.x; i <= ended && position0 + i < p.positions; i += THREADS) {
        u64 position = position0 + i;
        s.shifts[i] = p.starts[position] + (u32)(p.first + pair0 - p.offsets[position]);
        if (i < ended) s.ends[i] = (u32)(clipped(p, p.offsets[position + 1]) - pair0);
    }
    if (threadIdx.x == 0) s.ends[ended] = 0xffffffffu;
    __syncthreads();
    u32 my_step = min_of(threadIdx.x * STEPS, pairs + ended), my_end = min_of(my_step + STEPS, pairs + ended);
    u32 span = segments_within<u32>(my_step, ended, pairs, [&](u32 i) { return s.ends[i]; });
    u32 pair = my_step - span;
    for (; my_step < my_end; my_step++) {
        if (pair < s.ends[span]) s.spans[pair++] = (u16)span;
        else span++;
    }
    __syncthreads();

    u32 build_rows[STEPS], probe_rows[STEPS];
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at >= pairs) continue;
        u32 place = s.shifts[s.spans[at]] + at;
        u64 position = position0 + s.spans[at];
        build_rows[i] = p.build_rows ? p.build_rows[place] : place;
        probe_rows[i] = p.probe_rows ? p.probe_rows[position] : (u32)(p.first_row + position);
    }
#if !HAS_RESIDUAL
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < pairs) {
            p.build_out[pair0 + at] = build_rows[i];
            p.probe_out[pair0 + at] = probe_rows[i];
        }
    }
#else
    bool passes[STEPS];
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        passes[i] = at < pairs;
#if MODE == MODE_MARK
        // A row's first partner is enough.
        passes[i] = passes[i] && ((p.build_flags && !p.build_flags[build_rows[i]]) ||
                                  (p.probe_flags && !p.probe_flags[probe_rows[i]]));
#endif
        passes[i] = passes[i] && residual(p.residual, build_rows[i], probe_rows[i]);
        if (passes[i] && p.build_flags) p.build_flags[build_rows[i]] = 1;
        if (passes[i] && p.probe_flags) p.probe_flags[probe_rows[i]] = 1;
    }
#if MODE == MODE_COUNT
    // The ends have served: now they count what passes of each span.
    for (u32 i = threadIdx.x; i <= ended; i += THREADS) s.ends[i] = 0;
    __syncthreads();
    u32 mine = 0;
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        if (passes[i]) {
            atomicAdd(&s.ends[s.spans[i * THREADS + threadIdx.x]], 1u);
            mine++;
        }
    }
    u32 total = block_reduce(mine, Sum(), 0u, s.block);
    if (threadIdx.x == 0) p.tile_counts[blockIdx.x] = total;
    for (u32 i = threadIdx.x; i <= ended; i += THREADS) {
        if (s.ends[i] > 0) atomicAdd(&p.counts[position0 + i], s.ends[i]);
    }
#elif MODE != MODE_MARK
    // Places in the order of candidates: by round, warp and lane.
    u32 rank[STEPS];
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u32 ballot = __ballot_sync(FULL_WARP, passes[i]);
        rank[i] = __popc(ballot & lanes_below());
        if (lane_id() == 0) s.passed[i * WARPS + warp_id()] = __popc(ballot);
    }
    __syncthreads();
    u32 total;
    u32 passed = threadIdx.x < STEPS * WARPS ? s.passed[threadIdx.x] : 0;
    passed = block_exclusive_scan(passed, Sum(), 0u, s.block, total);
    if (threadIdx.x < STEPS * WARPS) s.passed[threadIdx.x] = passed;
#if MODE == MODE_AT_ONCE
    if (threadIdx.x == 0 && total > 0) s.base = atomicAdd(p.total, (u64)total);
    __syncthreads();
    u64 base = s.base;
#else
    __syncthreads();
#endif
#pragma unroll
    for (u32 i = 0; i < STEPS; i++) {
        u64 place = base + s.passed[i * WARPS + warp_id()] + rank[i];
        if (passes[i] && place >= p.window_start && place < p.window_end) {
            p.build_out[place - p.window_start] = build_rows[i];
            p.probe_out[place - p.window_start] = probe_rows[i];
        }
    }
#endif
#endif
}
