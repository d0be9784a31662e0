// Single-pass scans over tiles: decoupled look-back (Merrill and Garland 2016, "Single-pass Parallel Prefix Scan with
// Decoupled Look-back").
//
// Each tile has a descriptor that starts as zeros (empty), then holds the tile's aggregate, then the prefix up to and
// including the tile. Value and status travel in one access, so that no fence is needed. A tile waits only for tiles
// before it: one tile a block, in the order of block numbers, in which the hardware starts blocks.
#pragma once
#include "warp.cuh"

constexpr u32 TILE_EMPTY = 0, TILE_AGGREGATE = 1, TILE_PREFIX = 2;

/// Descriptors of values of 4 bytes (in 8), 8 bytes (in 16) or 16 bytes.
template <class T, u64 BYTES = sizeof(T)>
struct TileStates;
template <class T>
struct TileStates<T, 4> {
    u64* states;
    TENON_METHOD void publish(u64 tile, T value, u32 status) const {
        st_relaxed(&states[tile], (u64)status << 32 | bit_cast<u32>(value));
    }
    TENON_METHOD u32 read(u64 tile, T& value) const {
        u64 state = ld_relaxed(&states[tile]);
        value = bit_cast<T>((u32)state);
        return (u32)(state >> 32);
    }
};
template <class T>
struct TileStates<T, 8> {
    u64* states;
    TENON_METHOD void publish(u64 tile, T value, u32 status) const {
        st_relaxed_16((U64x2*)states + tile, U64x2{bit_cast<u64>(value), status});
    }
    TENON_METHOD u32 read(u64 tile, T& value) const {
        U64x2 state = ld_relaxed_16((U64x2*)states + tile);
        value = bit_cast<T>(state.x);
        return (u32)state.y;
    }
};
/// Descriptors of values of 16 bytes, in 48: aggregate, prefix, and a status that orders them.
template <class T>
struct TileStates<T, 16> {
    u64* states;
    TENON_METHOD void publish(u64 tile, T value, u32 status) const {
        u64* state = states + tile * 6;
        st_relaxed_16((U64x2*)(state + (status == TILE_PREFIX ? 2 : 0)), bit_cast<U64x2>(value));
        st_release(state + 4, (u64)status);
    }
    TENON_METHOD u32 read(u64 tile, T& value) const {
        u64* state = states + tile * 6;
        u32 status = (u32)ld_acquire(state + 4);
        if (status != TILE_EMPTY) value = bit_cast<T>(ld_relaxed_16((U64x2*)(state + (status == TILE_PREFIX ? 2 : 0))));
        return status;
    }
};
/// Descriptors of counts below 2^62, in 8 bytes.
struct TileCounts {
    u64* states;
    TENON_METHOD void publish(u64 tile, u64 value, u32 status) const {
        st_relaxed(&states[tile], (u64)status << 62 | value);
    }
    TENON_METHOD u32 read(u64 tile, u64& value) const {
        u64 state = ld_relaxed(&states[tile]);
        value = state & (((u64)1 << 62) - 1);
        return (u32)(state >> 62);
    }
};

/// Publishes the tile's aggregate, as soon as it is known. Called by one thread of the tile's block.
template <class T, class States>
TENON_DEVICE void publish_aggregate(const States& states, u64 tile, T aggregate) {
    states.publish(tile, aggregate, tile == 0 ? TILE_PREFIX : TILE_AGGREGATE);
}

/// What a warp saw of 32 tiles, lane `l` of the `l`-th nearest.
template <class T>
struct SeenTiles {
    T value;
    u32 status;

    template <class States>
    TENON_METHOD void look(const States& states, i64 tile, T identity) {
        value = identity;
        status = tile < 0 ? TILE_PREFIX : states.read((u64)tile, value);
    }
    /// Whether the tiles down to the nearest prefix, or all, have published; `complete` is where there are prefixes.
    TENON_METHOD bool is_ready(u32& complete) const {
        u32 empty = __ballot_sync(FULL_WARP, status == TILE_EMPTY);
        complete = __ballot_sync(FULL_WARP, status == TILE_PREFIX);
        u32 needed = complete == 0 ? FULL_WARP : (complete & (0 - complete)) - 1;
        return (empty & needed) == 0;
    }
    template <class Op>
    TENON_METHOD T reduce(u32 complete, Op op, T identity) const {
        u32 last = complete == 0 ? 31 : __ffs((i32)complete) - 1;
        return warp_reduce(lane_id() <= last ? value : identity, op);
    }
};

/// Returns the reduction over all tiles before this one. Called by one whole warp of the tile's block. The operation
/// commutes. A step reads 64 descriptors together: tiles finish faster than 32 a step, and those that wait must walk
/// faster than that.
template <class T, class States, class Op>
TENON_DEVICE T prefix_before(const States& states, u64 tile, Op op, T identity) {
    T prefix = identity;
    if (tile == 0) return prefix;
    i64 at = (i64)tile - 1 - lane_id();
    for (;;) {
        SeenTiles<T> near, far;
        near.look(states, at, identity);
        far.look(states, at - 32, identity);
        u32 complete;
        if (!near.is_ready(complete)) {
            tenon_spin_pause();
            continue;
        }
        prefix = op(prefix, near.reduce(complete, op, identity));
        if (complete != 0) return prefix;
        at -= 32;
        if (!far.is_ready(complete)) continue;
        prefix = op(prefix, far.reduce(complete, op, identity));
        if (complete != 0) return prefix;
        at -= 32;
    }
}

/// The same, and publishes it with the tile's own aggregate, which has been published.
template <class T, class States, class Op>
TENON_DEVICE T look_back(const States& states, u64 tile, T aggregate, Op op, T identity) {
    T prefix = prefix_before(states, tile, op, identity);
    if (tile > 0 && lane_id() == 0) states.publish(tile, op(prefix, aggregate), TILE_PREFIX);
    return prefix;
}

/// Both steps at once, by one whole warp.
template <class T, class States, class Op>
TENON_DEVICE T tile_prefix(const States& states, u64 tile, T aggregate, Op op, T identity) {
    if (lane_id() == 0) publish_aggregate(states, tile, aggregate);
    return look_back(states, tile, aggregate, op, identity);
}
