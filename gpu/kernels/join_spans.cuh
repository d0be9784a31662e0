// Spans: every probe's partners are consecutive places of the sorted build side (He 2008, section 4.1, INLJ and SMJ).
#pragma once
#include "tenon.cuh"

struct SpanParams {
    u32* starts;        // by position of the step
    u32* counts;
    u8* probe_flags;    // by probe row, or null
    const u32* probe_rows;  // by position of the step; null: the row is first_row + position
    u64 first_row;
    u32* reach;         // by build place, or null: the farthest end of the spans that start there
};

/// Stores the span of position `i`, which may cross (`end` before `start`): then it is empty.
TENON_DEVICE void put_span(const SpanParams& p, u64 i, u64 start, u64 end) {
    u32 count = end > start ? (u32)(end - start) : 0;
    p.starts[i] = (u32)start;
    p.counts[i] = count;
    if (count == 0) return;
    if (p.probe_flags) p.probe_flags[p.probe_rows ? p.probe_rows[i] : p.first_row + i] = 1;
    // Probes with the same span all ask the same place: most find it done.
    if (p.reach && ld_relaxed(&p.reach[start]) < (u32)end) atomicMax(&p.reach[start], (u32)end);
}
