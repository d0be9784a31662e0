// Merge of two ordered runs by merge path (Green, McColl & Bader 2012): every block, then every thread, finds by binary
// search on a diagonal which part of each run makes its part of the output. Stable: of equal keys those of A come first.
//
// Macros: KEY, KEY_FLOAT, PAYLOAD_BYTES (0, 4, 8, 16).
#include "merge_path.cuh"
#include "radix_key.cuh"

#if PAYLOAD_BYTES == 4
typedef u32 Payload;
#elif PAYLOAD_BYTES == 8
typedef u64 Payload;
#else
typedef u128 Payload;
#endif

constexpr u32 THREADS = tuning::MERGE_THREADS, ITEMS = tuning::MERGE_ITEMS, TILE = THREADS * ITEMS;

struct MergeParams {
    const KEY* keys_a;
    const KEY* keys_b;
    KEY* keys_out;
    const Payload* payload_a;
    const Payload* payload_b;
    Payload* payload_out;
    u64 items_a, items_b;
    CodeParams code;
};

struct MergeShared {
    Code codes[TILE];  // the block's part of A, then that of B
    u16 sources[TILE];
    u64 cut[2];
};

/// B first only if strictly below: stable.
TENON_DEVICE bool b_first(Code b, Code a) { return b < a; }

TENON_KERNEL_BOUNDS(merge, MergeParams, THREADS, 1) {
    TENON_SHARED(MergeShared, s);
    u64 items = p.items_a + p.items_b;
    u64 start = (u64)blockIdx.x * TILE, end = min_of<u64>(start + TILE, items);
    if (threadIdx.x < 2) {
        u64 diagonal = threadIdx.x == 0 ? start : end;
        s.cut[threadIdx.x] = merge_path(
            diagonal, p.items_a, p.items_b, [&](u64 i) { return code_of(p.keys_a[i], p.code); },
            [&](u64 i) { return code_of(p.keys_b[i], p.code); }, b_first);
    }
    __syncthreads();
    u64 a0 = s.cut[0], b0 = start - a0;
    u32 count = (u32)(end - start), count_a = (u32)(s.cut[1] - a0), count_b = count - count_a;
    for (u32 i = threadIdx.x; i < count; i += THREADS) {
        s.codes[i] = code_of(i < count_a ? p.keys_a[a0 + i] : p.keys_b[b0 + i - count_a], p.code);
    }
    __syncthreads();
    u32 place = min_of(threadIdx.x * ITEMS, count), last = min_of(place + ITEMS, count);
    u32 a = merge_path(
        place, count_a, count_b, [&](u32 i) { return s.codes[i]; }, [&](u32 i) { return s.codes[count_a + i]; }, b_first);
    u32 b = place - a;
    for (; place < last; place++) {
        bool from_b = a == count_a || (b < count_b && s.codes[count_a + b] < s.codes[a]);
        s.sources[place] = (u16)(from_b ? count_a + b++ : a++);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += THREADS) {
        u32 source = s.sources[i];
        bool from_a = source < count_a;
        u64 at = from_a ? a0 + source : b0 + source - count_a;
        p.keys_out[start + i] = from_a ? p.keys_a[at] : p.keys_b[at];
#if PAYLOAD_BYTES
        p.payload_out[start + i] = from_a ? p.payload_a[at] : p.payload_b[at];
#endif
    }
}
