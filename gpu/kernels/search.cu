// Search of many probes in a sorted array. Specialised by KEY, INDEX, LOWER and UPPER (which bounds to write: 0 or 1),
// ARITY (groups that one step tells apart) and TABLE (1: a sample of the array in shared memory takes the first step).
#include "ops.cuh"
#include "tile.cuh"

struct SearchParams {
    const KEY* sorted;
    u64 sorted_items;
    const KEY* probes;
    u64 items;
    INDEX* lower;
    INDEX* upper;
};

constexpr u32 PROBES = tuning::SEARCH_PROBES, THREADS = tuning::SEARCH_THREADS;
/// Groups of the table: its separators shall fit 32 KiB.
constexpr u32 GROUPS = sizeof(KEY) > 8 ? tuning::SEARCH_GROUPS / 2 : tuning::SEARCH_GROUPS;

/// Whether the bound of `probe` lies after `key`.
template <bool IS_UPPER>
TENON_DEVICE bool lies_after(KEY key, KEY probe) {
    return IS_UPPER ? !sorts_before(probe, key) : sorts_before(key, probe);
}

// The bound lies in [base, base + length]. A step divides these places into groups of `step` by separators that are
// read together; how many separators lie before the bound is its group. All probes take the same steps.
template <bool IS_UPPER>
TENON_DEVICE void search(const SearchParams& p, const KEY* table, u64 table_step, const KEY (&probes)[PROBES],
                         u64 (&base)[PROBES]) {
    u64 length = p.sorted_items;
#if TABLE
    // Binary, within shared memory.
    u32 group[PROBES] = {}, rest = GROUPS - 1;
    while (rest > 0) {
        u32 step = rest / 2 + 1;
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            u32 at = group[i] + step - 1;
            if (at < GROUPS - 1 && (at + 1) * table_step - 1 < p.sorted_items && lies_after<IS_UPPER>(table[at], probes[i])) {
                group[i] += step;
            }
        }
        rest = step - 1;
    }
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) base[i] = group[i] * table_step;
    length = table_step - 1;
#else
#pragma unroll
    for (u32 i = 0; i < PROBES; i++) base[i] = 0;
#endif
    while (length > 0) {
        u64 step = length / ARITY + 1;
        u32 groups[PROBES] = {};
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
#pragma unroll
            for (u32 s = 1; s < ARITY; s++) {
                u64 at = base[i] + s * step - 1;
                if (at < p.sorted_items) groups[i] += lies_after<IS_UPPER>(p.sorted[at], probes[i]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) base[i] += groups[i] * step;
        length = step - 1;
    }
}

TENON_KERNEL_BOUNDS(search_sorted, SearchParams, tuning::SEARCH_THREADS, 2) {
    TENON_SHARED_ARRAY(KEY, table, TABLE ? GROUPS : 1);
    u64 table_step = p.sorted_items / GROUPS + 1;
    if (TABLE) {
        for (u32 s = threadIdx.x; s < GROUPS - 1; s += THREADS) {
            u64 at = (s + 1) * table_step - 1;
            if (at < p.sorted_items) table[s] = p.sorted[at];
        }
        __syncthreads();
    }
    for (u64 tile = blockIdx.x * (u64)(THREADS * PROBES); tile < p.items; tile += (u64)gridDim.x * (THREADS * PROBES)) {
        KEY probes[PROBES];
        u64 found[PROBES];
#pragma unroll
        for (u32 i = 0; i < PROBES; i++) {
            u64 at = tile + i * THREADS + threadIdx.x;
            probes[i] = at < p.items ? p.probes[at] : KEY();
        }
        if (LOWER) {
            search<false>(p, table, table_step, probes, found);
#pragma unroll
            for (u32 i = 0; i < PROBES; i++) {
                u64 at = tile + i * THREADS + threadIdx.x;
                if (at < p.items) p.lower[at] = (INDEX)found[i];
            }
        }
        if (UPPER) {
            search<true>(p, table, table_step, probes, found);
#pragma unroll
            for (u32 i = 0; i < PROBES; i++) {
                u64 at = tile + i * THREADS + threadIdx.x;
                if (at < p.items) p.upper[at] = (INDEX)found[i];
            }
        }
    }
}
