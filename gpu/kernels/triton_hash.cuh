// The hash of the Triton join, and the partitions of its first pass.
//
// Macros: KEY (u32, u64), HASH_EQUAL (1: all hashes are equal, to test what depends on their spread).
#pragma once
#include "tenon.cuh"

/// 64 well mixed bits: partitions take the lowest, slots of tables the uppermost.
TENON_DEVICE u64 hash_of(u64 key) {
#if HASH_EQUAL
    return 0;
#else
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdull;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53ull;
    return key ^ key >> 33;
#endif
}

/// The partitions: low bits of the hash, or ranges of keys where keys are dense, so that an array serves a partition.
struct Partitioning {
    u64 key_min;  // ranges: the first key
    u32 count;    // of partitions; a power of two, unless by ranges
    u32 shift;    // ranges: 2^shift keys each; keys outside of all belong to the last
    u32 ranges, unused;

    TENON_METHOD u32 of(KEY key) const {
        if (ranges) return (u32)min_of<u64>(((u64)key - key_min) >> shift, count - 1);
        return (u32)hash_of(key) & (count - 1);
    }
};
