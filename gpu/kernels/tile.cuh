// Tiles of consecutive items, moved by 16-byte accesses.
//
// A thread holds PACKS packs of V consecutive items. Pack `i` of a lane starts at tile item
//     warp * 32 * V * PACKS + (i * 32 + lane) * V
// so that every access of a warp covers consecutive bytes, and the tile's order is (warp, i, lane, item of the pack):
// scans need no transposition through shared memory.
#pragma once
#include "warp.cuh"

template <int BYTES>
struct BitsOf;
template <>
struct BitsOf<1> { typedef u8 type; };
template <>
struct BitsOf<2> { typedef u16 type; };
template <>
struct BitsOf<4> { typedef u32 type; };
template <>
struct BitsOf<8> { typedef u64 type; };
template <>
struct BitsOf<16> { typedef U64x2 type; };

/// `V` items by one access; the address is a multiple of their size.
template <int V, class T>
TENON_DEVICE void load_items(const T* address, T (&items)[V]) {
    typedef typename BitsOf<V * sizeof(T)>::type Bits;
    Bits bits = *reinterpret_cast<const Bits*>(address);
    memcpy(items, &bits, sizeof(Bits));
}
template <int V, class T>
TENON_DEVICE void store_items(T* address, const T (&items)[V]) {
    typedef typename BitsOf<V * sizeof(T)>::type Bits;
    Bits bits;
    memcpy(&bits, items, sizeof(Bits));
    *reinterpret_cast<Bits*>(address) = bits;
}

/// Items of a pack when the widest type moved with it has `bytes` bytes.
TENON_DEVICE constexpr int pack_items(u64 bytes, int at_most = 16) {
    return bytes >= 16 ? 1 : (int)(16 / bytes) < at_most ? (int)(16 / bytes) : at_most;
}
template <class A, class B>
TENON_DEVICE constexpr u64 wider() { return sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B); }

/// Where this thread's pack `i` starts in the tile.
template <int V, int PACKS>
TENON_DEVICE u32 pack_start(int i) {
    return (warp_id() * PACKS + i) * 32 * V + lane_id() * V;
}

/// Loads this thread's packs of the tile at `tile`, which has `valid` items; items beyond are `fill`.
template <int V, int PACKS, class T>
TENON_DEVICE void load_strip(const T* tile, u32 valid, T (&items)[PACKS][V], T fill) {
    if (valid == blockDim.x * V * PACKS && is_aligned(tile, V * sizeof(T))) {
#pragma unroll
        for (int i = 0; i < PACKS; i++) load_items(tile + pack_start<V, PACKS>(i), items[i]);
    } else {
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                u32 at = pack_start<V, PACKS>(i) + j;
                items[i][j] = at < valid ? tile[at] : fill;
            }
        }
    }
}

/// Stores this thread's packs of the tile at `tile`, up to `valid` items.
template <int V, int PACKS, class T>
TENON_DEVICE void store_strip(T* tile, u32 valid, const T (&items)[PACKS][V]) {
    if (valid == blockDim.x * V * PACKS && is_aligned(tile, V * sizeof(T))) {
#pragma unroll
        for (int i = 0; i < PACKS; i++) store_items(tile + pack_start<V, PACKS>(i), items[i]);
    } else {
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                u32 at = pack_start<V, PACKS>(i) + j;
                if (at < valid) tile[at] = items[i][j];
            }
        }
    }
}

/// Calls `f(item)` once for every item, in no particular order, by all threads of the grid together: 16-byte loads
/// from the first aligned address on, PACKS of them in flight a thread. The grid has 16 threads at least.
template <int PACKS, class T, class F>
TENON_DEVICE void for_each_item(const T* input, u64 items, F f) {
    constexpr int V = pack_items(sizeof(T));
    u64 thread = global_thread(), threads = grid_threads();
    u64 beyond = (u64)input & 15;
    u64 head = beyond == 0 ? 0 : min_of<u64>(items, (16 - beyond) / sizeof(T));
    const T* body = input + head;
    u64 packs = (items - head) / V, tail = head + packs * V;
    if (thread < head) f(input[thread]);
    if (thread < items - tail) f(input[tail + thread]);
    for (u64 at = thread; at < packs; at += PACKS * threads) {
        T loaded[PACKS][V];
        if (at + (PACKS - 1) * threads < packs) {
#pragma unroll
            for (int i = 0; i < PACKS; i++) load_items(body + (at + i * threads) * V, loaded[i]);
#pragma unroll
            for (int i = 0; i < PACKS; i++) {
#pragma unroll
                for (int j = 0; j < V; j++) f(loaded[i][j]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < PACKS; i++) {
                if (at + i * threads < packs) load_items(body + (at + i * threads) * V, loaded[i]);
            }
#pragma unroll
            for (int i = 0; i < PACKS; i++) {
                if (at + i * threads < packs) {
#pragma unroll
                    for (int j = 0; j < V; j++) f(loaded[i][j]);
                }
            }
        }
    }
}
