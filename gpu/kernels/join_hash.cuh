// What the kernels of the hash joins share: the hash, tuples, pieces of work.
//
// Macros: KEY (u32 or u64: the columns' type), WORD (u32, or u64 if key or a value has 8 bytes), HASH_EQUAL (1: all
// hashes are equal, to test what depends on their spread).
#pragma once
#include "tenon.cuh"

/// 32 well mixed bits: partitions take the uppermost, slots of a partition's table those below.
TENON_DEVICE u32 hash_of(u32 key) {
#if HASH_EQUAL
    return 0;
#else
    u32 h = key * 0x9e3779b1u;
    return (h ^ h >> 16) * 0x85ebca6bu;
#endif
}
TENON_DEVICE u32 hash_of(u64 key) {
#if HASH_EQUAL
    return 0;
#else
    u64 h = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull;
    return (u32)(h >> 32) * 0x85ebca6bu ^ (u32)(h >> 40);
#endif
}

/// A key with its row number or payload: one access of 8 or 16 bytes.
struct alignas(2 * sizeof(WORD)) Tuple {
    WORD key, value;
};

/// Consecutive tuples of one partition.
struct Piece {
    u32 from, to, partition, unused;
};

/// Tuples of the build side that meet tuples of the probe side: all of one partition.
struct Work {
    u32 build_from, build_to, probe_from, probe_to;
};
