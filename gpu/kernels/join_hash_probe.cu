// Probing a hash table in device memory (He 2008, section 4: count, prefix sum, write; or all at once).
//
// MODE: 0 count the partners of each position, 1 write pairs at given places, 2 mark, 3 write all at once (UNIQUE),
// 4 write groups at given places, a thread a pair (not UNIQUE, no residual).
// A group of more than a warp's rows is visited by the whole warp, so that one probe row with many partners does not
// keep the others waiting.
//
// Macros: those of join_hash_table.cuh; MODE, HAS_RESIDUAL, THREADS, ITEMS.
#include "join_hash_table.cuh"
#include "block.cuh"
#include "residual_params.cuh"

constexpr u32 TILE = THREADS * ITEMS, WARPS = THREADS / 32;

struct ProbeParams {
    const KEY* keys;
    const u32* rows;  // null: the key's number
    u64 from, to;     // positions
    TableView table;
    const u32* group_offsets;  // not UNIQUE
    const u32* group_rows;
    u8* group_marks;  // null: not wanted
    u32* counts;      // of the positions from `from` on
    const u64* offsets;
    u64 window_from, window_to;
    u32* build_out;
    u32* probe_out;
    u64 capacity_out;
    u64* count_out;
    u8* build_flags;  // null: not wanted
    u8* probe_flags;
    ResidualParams residual;
};

TENON_DEVICE bool holds(const ProbeParams& p, u32 build, u32 probe) {
#if HAS_RESIDUAL
    return residual(p.residual, build, probe);
#else
    return true;
#endif
}
TENON_DEVICE u32 row_at(const ProbeParams& p, u64 position) { return p.rows ? p.rows[position] : (u32)position; }

TENON_DEVICE void put(const ProbeParams& p, u64 place, u32 build, u32 probe) {
    if (place < p.window_from || place >= p.window_to) return;
    p.build_out[place - p.window_from] = build;
    p.probe_out[place - p.window_from] = probe;
}

/// A pair that holds, and its place.
TENON_DEVICE void take(const ProbeParams& p, u32 build, u32 probe, u64 place) {
    if (p.build_flags) p.build_flags[build] = 1;
    if (MODE == 1) put(p, place, build, probe);
}

/// Visits the group `from..from + size` of each lane's probe row. Returns how many are its partners; if `one` is enough,
/// not more than one step's. All lanes together.
TENON_DEVICE u32 visit(const ProbeParams& p, u32 from, u32 size, u32 probe, u64 place, bool one) {
    u32 found = 0;
    bool is_large = size > 32;
    for (u32 i = 0; !is_large && i < size && !(one && found); i++) {
        u32 build = p.group_rows[from + i];
        if (holds(p, build, probe)) take(p, build, probe, place + found++);
    }
    for (u32 large = __ballot_sync(FULL_WARP, is_large); large; large &= large - 1) {
        u32 owner = (u32)__ffs((int)large) - 1, start = shuffle(from, owner), rows = shuffle(size, owner);
        u32 of_owner = shuffle(probe, owner), sum = 0;
        u64 to = shuffle(place, owner);
        for (u32 i = lane_id(); i - lane_id() < rows && !(one && sum); i += 32) {
            u32 build = i < rows ? p.group_rows[start + i] : NONE;
            bool is_pair = i < rows && holds(p, build, of_owner);
            u32 lanes = __ballot_sync(FULL_WARP, is_pair);
            if (is_pair) take(p, build, of_owner, to + sum + (u32)__popc(lanes & lanes_below()));
            sum += (u32)__popc(lanes);
        }
        if (lane_id() == owner) found = sum;
    }
    return found;
}

#if MODE == 4
/// The last of `offsets[low..high]` at or before `place`, where that of `low` is.
TENON_DEVICE u64 position_of(const u64* offsets, u64 low, u64 high, u64 place) {
    while (high - low > 1) {
        u64 middle = low + (high - low) / 2;
        if (offsets[middle] <= place) low = middle;
        else high = middle;
    }
    return low;
}

TENON_KERNEL_BOUNDS(write_groups, ProbeParams, THREADS, 1) {
    TENON_SHARED_ARRAY(u64, bounds, 2);
    u64 first = p.window_from + (u64)blockIdx.x * TILE, end = min_of<u64>(p.window_to, first + TILE);
    if (threadIdx.x < 2) {
        bounds[threadIdx.x] = position_of(p.offsets, 0, p.to - p.from, threadIdx.x == 0 ? first : end - 1);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 place = first + i * THREADS + threadIdx.x;
        if (place >= end) continue;
        u64 position = position_of(p.offsets, bounds[0], bounds[1] + 1, place), at = p.from + position;
        u32 group = find_rest(p.table, p.keys[at], find_first(p.table, p.keys[at]));
        TENON_ASSERT(group != NONE);
        u32 build = p.group_rows[p.group_offsets[group] + (place - p.offsets[position])];
        put(p, place, build, row_at(p, at));
    }
}
#else
struct Shared {
    u32 warps[WARPS];
    u64 place;
};

TENON_KERNEL_BOUNDS(probe, ProbeParams, THREADS, 1) {
    u64 tile = p.from + (u64)blockIdx.x * TILE;
    KEY keys[ITEMS];
    First firsts[ITEMS];
    u32 values[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = tile + i * THREADS + threadIdx.x;
        if (at < p.to) keys[i] = p.keys[at];
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (tile + i * THREADS + threadIdx.x < p.to) firsts[i] = find_first(p.table, keys[i]);
    }
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        values[i] = tile + i * THREADS + threadIdx.x < p.to ? find_rest(p.table, keys[i], firsts[i]) : NONE;
    }
#if MODE == 3
    TENON_SHARED(Shared, s);
    u32 of_warp = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = tile + i * THREADS + threadIdx.x;
        if (values[i] != NONE && !holds(p, values[i], row_at(p, at))) values[i] = NONE;
        of_warp += (u32)__popc(__ballot_sync(FULL_WARP, values[i] != NONE));
    }
    if (lane_id() == 0) s.warps[warp_id()] = of_warp;
    __syncthreads();
    u32 other = lane_id() < WARPS ? s.warps[lane_id()] : 0, scanned = warp_inclusive_scan(other, Sum());
    u32 before = shuffle(scanned - other, warp_id()), all = shuffle(scanned, 31);
    if (threadIdx.x == 0) s.place = all ? atomicAdd(p.count_out, (u64)all) : 0;
    __syncthreads();
    u64 place = s.place + before;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32 lanes = __ballot_sync(FULL_WARP, values[i] != NONE);
        if (values[i] != NONE) {
            u32 row = row_at(p, tile + i * THREADS + threadIdx.x);
            u64 to = place + (u32)__popc(lanes & lanes_below());
            if (p.build_flags) p.build_flags[values[i]] = 1;
            if (p.probe_flags) p.probe_flags[row] = 1;
            if (to < p.capacity_out) {
                p.build_out[to] = values[i];
                p.probe_out[to] = row;
            }
        }
        place += (u32)__popc(lanes);
    }
#else
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u64 at = tile + i * THREADS + threadIdx.x;
        bool is_row = at < p.to, is_found = values[i] != NONE;
        u32 row = is_row ? row_at(p, at) : 0, found = 0;
        u64 place = MODE == 1 && is_row ? p.offsets[at - p.from] : 0;
#if UNIQUE
        if (is_found && holds(p, values[i], row)) {
            found = 1;
            take(p, values[i], row, place);
        }
#elif HAS_RESIDUAL
        u32 from = is_found ? p.group_offsets[values[i]] : 0;
        u32 size = is_found ? p.group_offsets[values[i] + 1] - from : 0;
        found = visit(p, from, size, row, place, MODE == 2 && !p.build_flags);
#else
        if (is_found) {
            found = p.group_offsets[values[i] + 1] - p.group_offsets[values[i]];
            if (p.group_marks) p.group_marks[values[i]] = 1;
        }
#endif
        if (MODE == 0 && is_row) p.counts[at - p.from] = found;
        if (p.probe_flags && found) p.probe_flags[row] = 1;
    }
#endif
}
#endif
