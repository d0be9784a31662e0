// CSS-tree (Rao and Ross 1999; He 2008, section 4.1): directory levels over sorted keys, as one array without pointers,
// root first. Entry `j` of a level is the last key of node `j` of the next level; the last entry of a level, and those
// that fill up its last node, are the greatest number, so that every probe goes down to a leaf.
//
// Macros: KEY, NODE (keys of a node, a power of two), EQUAL (1: low and high are the same probe).
#include "join_spans.cuh"
#include "tile.cuh"

struct CssTreeParams {
    const KEY* sorted;
    u64 items;
    KEY* directory;
    u64 levels;
    u64 level_start[16];  // in keys; then the end
    u64 shared_levels;
};
struct CssProbeParams {
    CssTreeParams tree;
    const KEY* low;   // null: from the first key
    const KEY* high;  // null: to the last key
    u64 low_excluded, high_excluded;
    u64 probes;
    SpanParams span;
};

constexpr u32 THREADS = tuning::CSS_THREADS, PROBES = tuning::CSS_PROBES;
constexpr KEY GREATEST = (KEY)~(KEY)0;
constexpr int V = pack_items(sizeof(KEY), NODE), PACKS = NODE / V;

TENON_KERNEL(css_build, CssTreeParams) {
    u64 at = global_thread();
    if (at >= p.level_start[p.levels]) return;
    u64 level = 0, span = NODE;
    while (at >= p.level_start[level + 1]) level++;
    for (u64 below = level + 1; below < p.levels; below++) span *= NODE;
    u64 end = (at - p.level_start[level] + 1) * span;
    p.directory[at] = end < p.items ? p.sorted[end - 1] : GREATEST;
}

/// Keys of an aligned node that lie below the probe, by reading all of it: one or two sectors.
TENON_DEVICE u32 count_node(const KEY* node, KEY probe) {
    u32 below = 0;
#pragma unroll
    for (int i = 0; i < PACKS; i++) {
        KEY keys[V];
        load_items(node + i * V, keys);
#pragma unroll
        for (int j = 0; j < V; j++) below += keys[j] < probe;
    }
    return below;
}
/// The same in shared memory, where a key read costs as much as a pack: binary.
TENON_DEVICE u32 search_node(const KEY* node, KEY probe) {
    u32 below = 0;
#pragma unroll
    for (u32 half = NODE / 2; half > 0; half /= 2) below += node[below + half - 1] < probe ? half : 0;
    return below + (node[below] < probe);
}

/// The first place whose key is not below each probe.
TENON_DEVICE void descend(const CssTreeParams& p, const KEY* upper, bool aligned, const KEY (&probes)[PROBES],
                          u64 (&place)[PROBES]) {
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) place[i] = 0;
    u32 level = 0;
    for (; level < p.shared_levels; level++) {
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            place[i] = place[i] * NODE + search_node(upper + p.level_start[level] + place[i] * NODE, probes[i]);
        }
    }
    for (; level < p.levels; level++) {
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            place[i] = place[i] * NODE + count_node(p.directory + p.level_start[level] + place[i] * NODE, probes[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) {
        u64 leaf = place[i] * NODE;
        if (aligned && leaf + NODE <= p.items) {
            place[i] = leaf + count_node(p.sorted + leaf, probes[i]);
        } else {
            u64 end = min_of<u64>(leaf + NODE, p.items);
            place[i] = leaf;
            while (place[i] < end && p.sorted[place[i]] < probes[i]) place[i]++;
        }
    }
}

/// The first places whose keys are not below the probes, or (`above`) are above them.
TENON_DEVICE void bounds(const CssTreeParams& p, const KEY* upper, bool aligned, bool above, const KEY (&probes)[PROBES],
                         u64 (&place)[PROBES]) {
    KEY targets[PROBES];
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) targets[i] = probes[i] + (above && probes[i] != GREATEST);
    descend(p, upper, aligned, targets, place);
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) {
        if (above && probes[i] == GREATEST) place[i] = p.items;
    }
}

TENON_KERNEL_BOUNDS(css_probe, CssProbeParams, THREADS, 2) {
    TENON_DYNAMIC_SHARED(KEY, upper);
    const CssTreeParams& t = p.tree;
    for (u32 i = threadIdx.x; i < t.level_start[t.shared_levels]; i += THREADS) upper[i] = t.directory[i];
    __syncthreads();
    bool aligned = is_aligned(t.sorted, V * sizeof(KEY));
    for (u64 tile = blockIdx.x * (u64)(THREADS * PROBES); tile < p.probes; tile += (u64)gridDim.x * (THREADS * PROBES)) {
        KEY probes[PROBES];
        u64 start[PROBES] = {}, end[PROBES];
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) end[i] = t.items;
        if (p.low) {
#pragma unroll
            for (u32 i = 0; i < PROBES; i++) {
                u64 at = tile + i * THREADS + threadIdx.x;
                probes[i] = at < p.probes ? p.low[at] : 0;
            }
            bounds(t, upper, aligned, p.low_excluded, probes, start);
        }
#if EQUAL
        // One partner or none is usual: the next keys are in the same node. Only more of them ask the tree again.
        bool many = false;
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            u64 at = start[i];
            bool equal = at < t.items && t.sorted[at] == probes[i];
            bool more = equal && at + 1 < t.items && t.sorted[at + 1] == probes[i];
            end[i] = at + equal;
            many |= more;
        }
        if (many) bounds(t, upper, aligned, true, probes, end);
#else
        if (p.high) {
#pragma unroll
            for (u32 i = 0; i < PROBES; i++) {
                u64 at = tile + i * THREADS + threadIdx.x;
                probes[i] = at < p.probes ? p.high[at] : 0;
            }
            bounds(t, upper, aligned, !p.high_excluded, probes, end);
        }
#endif
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            u64 at = tile + i * THREADS + threadIdx.x;
            if (at < p.probes) put_span(p.span, at, start[i], end[i]);
        }
    }
}
