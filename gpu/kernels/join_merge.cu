// Bounds of ascending probes in sorted keys, by merging the two: equal parts of the merge by merge path, whatever the
// skew (He 2008, section 4.1, SMJ, cuts chunks of one side and looks up the other's).
//
// Macros: KEY, AFTER_EQUAL (0: the first place not below the probe; 1: the first place above it), FIND (what the bounds are).
#include "join_spans.cuh"
#include "merge_path.cuh"

#define FIND_STARTS 0  // starts of spans
#define FIND_ENDS 1    // ends of spans whose starts stand
#define FIND_EQUAL 2   // starts of spans of equal keys, whose ends are near

constexpr u32 THREADS = tuning::JOIN_MERGE_THREADS, ITEMS = tuning::JOIN_MERGE_ITEMS, TILE = THREADS * ITEMS;

struct JoinMergeParams {
    const KEY* sorted;
    u64 items;
    const KEY* probes;
    u64 probe_items;
    u64* splits;
    u64 tiles;
    SpanParams span;
};

/// Whether a build key comes before a probe: its place is not behind the probe's bound.
TENON_DEVICE bool build_first(KEY build, KEY probe) { return AFTER_EQUAL ? build <= probe : build < probe; }

// splits[t]: probes before tile t of the merge.
TENON_KERNEL(merge_splits, JoinMergeParams) {
    u64 tile = global_thread();
    if (tile > p.tiles) return;
    u64 diagonal = min_of(tile * TILE, p.items + p.probe_items);
    p.splits[tile] = merge_path(
        diagonal, p.probe_items, p.items, [&](u64 i) { return p.probes[i]; }, [&](u64 i) { return p.sorted[i]; },
        build_first);
}

/// The end of the keys equal to `key` that start at `from`: doubled steps, then a binary search. Most probes have one
/// partner or none, and read what their block has just read.
TENON_DEVICE u64 end_of_equal(const KEY* sorted, u64 items, u64 from, KEY key) {
    if (from >= items || sorted[from] != key) return from;
    u64 low = from + 1, step = 1;
    while (low + step <= items && sorted[low + step - 1] == key) {
        low += step;
        step *= 2;
    }
    u64 high = min_of(low + step - 1, items);
    while (low < high) {
        u64 middle = low + (high - low) / 2;
        if (sorted[middle] == key) low = middle + 1;
        else high = middle;
    }
    return low;
}

struct JoinMergeShared {
    KEY keys[TILE];  // the tile's probes, then its build keys
    u16 bounds[TILE];
};

TENON_KERNEL_BOUNDS(merge_bounds, JoinMergeParams, THREADS, 4) {
    TENON_SHARED(JoinMergeShared, s);
    u64 start = blockIdx.x * (u64)TILE;
    u64 probe0 = p.splits[blockIdx.x], probe1 = p.splits[blockIdx.x + 1];
    u32 probes = (u32)(probe1 - probe0);
    if (probes == 0) return;
    u64 build0 = start - probe0;
    u32 all = (u32)min_of<u64>(TILE, p.items + p.probe_items - start), builds = all - probes;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 at = i * THREADS + threadIdx.x;
        if (at < all) s.keys[at] = at < probes ? p.probes[probe0 + at] : p.sorted[build0 + at - probes];
    }
    __syncthreads();
    u32 step = min_of(threadIdx.x * ITEMS, all), last = min_of(step + ITEMS, all);
    u32 probe = merge_path(
        step, probes, builds, [&](u32 i) { return s.keys[i]; }, [&](u32 i) { return s.keys[probes + i]; }, build_first);
    u32 build = step - probe;
    for (; step < last; step++) {
        if (probe == probes || (build < builds && build_first(s.keys[probes + build], s.keys[probe]))) build++;
        else s.bounds[probe++] = (u16)build;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < probes; i += THREADS) {
        u64 bound = build0 + s.bounds[i], at = probe0 + i;
#if FIND == FIND_STARTS
        p.span.starts[at] = (u32)bound;
#elif FIND == FIND_ENDS
        put_span(p.span, at, p.span.starts[at], bound);
#else
        put_span(p.span, at, bound, end_of_equal(p.sorted, p.items, bound, s.keys[i]));
#endif
    }
}
