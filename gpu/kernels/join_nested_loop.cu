// Nested-loop join, blocked (He 2008, section 4.1): a block holds PROBES probe rows a thread in registers, and walks over
// a slice of the build side in tiles in shared memory. Few probe rows still fill the device, since the build side is cut
// into slices, each the work of a block for every tile of probes.
//
// The order of a position's pairs is that of slices and of build rows within them: counts of (slice, position), summed
// over the slices before, are the places of pairs.
//
// Macros: HAS_KEY (1: equality of KEY), KEY, PROBES, MODE, HAS_RESIDUAL.
#include "residual_params.cuh"
#include "tile.cuh"

#define MODE_WRITE 0
#define MODE_COUNT 1
#define MODE_AT_ONCE 2
#define MODE_MARK 3

struct NestedLoopParams {
    const KEY* build_keys;
    const u32* build_rows;  // null: the number of the key
    u64 build_items;
    u64 slice_items;        // a multiple of the tile
    const KEY* probe_keys;  // of the step's positions
    const u32* probe_rows;  // null: first_row + position
    u64 first_row;
    u64 positions;
    u32* partials;          // [slice][position]: counts, or those of the slices before; may be null when writing
    const u64* offsets;
    u64 window_start, window_end;
    u32* build_out;
    u32* probe_out;
    u64* total;
    u8* build_flags;
    u8* probe_flags;
    ResidualParams residual;
};
struct FoldParams {
    u32* partials;
    u64 slices, positions;
    u32* counts;
};

constexpr u32 THREADS = tuning::NESTED_THREADS, TILE = tuning::NESTED_TILE, GROUP = 4, WARPS = THREADS / 32;
constexpr u32 STAGE = tuning::NESTED_STAGE;

// counts[i]: the sum over slices; partials: the sums over the slices before.
TENON_KERNEL(nested_fold, FoldParams) {
    u64 i = global_thread();
    if (i >= p.positions) return;
    u32 sum = 0;
    for (u64 slice = 0; slice < p.slices; slice++) {
        u32* partial = &p.partials[slice * p.positions + i];
        u32 count = *partial;
        *partial = sum;
        sum += count;
    }
    if (p.counts) p.counts[i] = sum;
}

struct NestedShared {
    KEY keys[HAS_KEY ? TILE : 1];
#if MODE == MODE_AT_ONCE
    u32 staged_build[WARPS][STAGE], staged_probe[WARPS][STAGE];
#endif
};

/// What becomes of a thread's matches.
struct Matches {
    const NestedLoopParams& p;
    NestedShared& s;
    u32 probe_row[PROBES];
    u32 valid;  // bit `r`: probe `r` exists, and waits for partners
#if MODE == MODE_COUNT
    u32 count[PROBES] = {};
#elif MODE == MODE_WRITE
    u64 place[PROBES];
#elif MODE == MODE_MARK
    u32 found = 0;
#else
    u32 staged = 0;  // the same in all lanes
#endif

    TENON_METHOD u32 build_row(u64 item) const { return p.build_rows ? p.build_rows[item] : (u32)item; }

    /// Whether build row and probe `r`, whose keys are equal, match.
    TENON_METHOD bool fulfils(u32 row, u32 r) const {
        if (!(valid >> r & 1)) return false;
#if HAS_RESIDUAL
        return residual(p.residual, row, probe_row[r]);
#else
        return true;
#endif
    }

    /// Takes the pair of build row and probe `r`, if it is one. In MODE_AT_ONCE the warp calls it together.
    TENON_METHOD void put(bool equal, u32 row, u32 r) {
#if MODE == MODE_MARK
        // A row's first partner is enough.
        equal = equal && ((p.probe_flags && !(found >> r & 1)) || (p.build_flags && !p.build_flags[row]));
#endif
        bool match = equal && fulfils(row, r);
        if (match && p.build_flags) p.build_flags[row] = 1;
#if MODE == MODE_COUNT
        count[r] += match;
#elif MODE == MODE_MARK
        found |= (u32)match << r;
#elif MODE == MODE_WRITE
        if (match) {
            if (place[r] >= p.window_start && place[r] < p.window_end) {
                p.build_out[place[r] - p.window_start] = row;
                p.probe_out[place[r] - p.window_start] = probe_row[r];
            }
            place[r]++;
        }
#else
        u32 matches = __ballot_sync(FULL_WARP, match);
        if (matches == 0) return;
        if (match) {
            u32 at = staged + __popc(matches & lanes_below());
            s.staged_build[warp_id()][at] = row;
            s.staged_probe[warp_id()][at] = probe_row[r];
            if (p.probe_flags) p.probe_flags[probe_row[r]] = 1;
        }
        staged += __popc(matches);
        if (staged > STAGE - 32) flush();
#endif
    }

#if MODE == MODE_AT_ONCE
    /// Writes the warp's staged pairs: one addition to the counter for all.
    TENON_METHOD void flush() {
        __syncwarp();
        u64 base = 0;
        if (lane_id() == 0 && staged > 0) base = atomicAdd(p.total, (u64)staged);
        base = shuffle(base, 0);
        for (u32 i = lane_id(); i < staged; i += 32) {
            if (base + i < p.window_end) {
                p.build_out[base + i] = s.staged_build[warp_id()][i];
                p.probe_out[base + i] = s.staged_probe[warp_id()][i];
            }
        }
        __syncwarp();
        staged = 0;
    }
#endif
};

/// Whether any lane of the warp has it, where lanes go on together; elsewhere this lane.
TENON_DEVICE bool any(bool it) {
#if MODE == MODE_AT_ONCE
    return __any_sync(FULL_WARP, it);
#else
    return it;
#endif
}

TENON_KERNEL_BOUNDS(nested_loop, NestedLoopParams, THREADS, 2) {
    TENON_SHARED(NestedShared, s);
    u64 position0 = blockIdx.x * (u64)(THREADS * PROBES) + threadIdx.x, slice = blockIdx.y;
    Matches matches{p, s};
    matches.valid = 0;
#if HAS_KEY
    KEY probes[PROBES];
#endif
#pragma unroll
    for (u32 r = 0; r < PROBES; r++) {
        u64 position = position0 + r * THREADS;
        bool exists = position < p.positions;
        matches.valid |= (u32)exists << r;
        matches.probe_row[r] = !exists ? 0 : p.probe_rows ? p.probe_rows[position] : (u32)(p.first_row + position);
#if HAS_KEY
        probes[r] = exists ? p.probe_keys[position] : 0;
#endif
#if MODE == MODE_WRITE
        u64 before = exists && p.partials ? p.partials[slice * p.positions + position] : 0;
        matches.place[r] = exists ? p.offsets[position] + before : 0;
#endif
    }
    u64 slice_end = min_of((slice + 1) * p.slice_items, p.build_items);
    for (u64 tile = slice * p.slice_items; tile < slice_end; tile += TILE) {
        u32 items = (u32)min_of<u64>(TILE, slice_end - tile);
#if MODE == MODE_MARK
        // All have partners, and nobody asks for those of the build side.
        bool done = !p.build_flags && matches.found == matches.valid;
        if (__syncthreads_and(done)) break;
#endif
#if HAS_KEY
        __syncthreads();
        // The last group is filled up with a key of the tile; its matches are told by their number.
        for (u32 i = threadIdx.x; i < TILE; i += THREADS) {
            if (i < (items + GROUP - 1) / GROUP * GROUP) s.keys[i] = p.build_keys[tile + min_of(i, items - 1)];
        }
        __syncthreads();
        for (u32 j = 0; j < items; j += GROUP) {
            KEY keys[GROUP];
#pragma unroll
            for (u32 q = 0; q < GROUP; q += 16 / sizeof(KEY)) {
                KEY pack[16 / sizeof(KEY)];
                load_items(&s.keys[j + q], pack);
                memcpy(&keys[q], pack, 16);
            }
            bool hit = false;
#pragma unroll
            for (u32 q = 0; q < GROUP; q++) {
#pragma unroll
                for (u32 r = 0; r < PROBES; r++) hit |= keys[q] == probes[r];
            }
            if (!any(hit)) continue;
#pragma unroll 1
            for (u32 q = 0; q < GROUP && j + q < items; q++) {
                KEY key = s.keys[j + q];
                u32 row = matches.build_row(tile + j + q);
#pragma unroll
                for (u32 r = 0; r < PROBES; r++) matches.put(key == probes[r], row, r);
            }
        }
#else
        for (u32 j = 0; j < items; j++) {
            u32 row = matches.build_row(tile + j);
#pragma unroll
            for (u32 r = 0; r < PROBES; r++) matches.put(true, row, r);
        }
#endif
    }
#if MODE == MODE_AT_ONCE
    matches.flush();
#else
#pragma unroll
    for (u32 r = 0; r < PROBES; r++) {
        u64 position = position0 + r * THREADS;
        if (!(matches.valid >> r & 1)) continue;
#if MODE == MODE_COUNT
        p.partials[slice * p.positions + position] = matches.count[r];
        if (matches.count[r] > 0 && p.probe_flags) p.probe_flags[matches.probe_row[r]] = 1;
#elif MODE == MODE_MARK
        if ((matches.found >> r & 1) && p.probe_flags) p.probe_flags[matches.probe_row[r]] = 1;
#endif
    }
#endif
}
