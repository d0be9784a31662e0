// A fused pipeline: rows of a table's segments, or of a table made by an earlier pipeline, through generated code up to a
// sink. Specialised by four pieces of it: what a block begins with, what it has of a tile, what it does with a row, and how it
// ends.
#include "pipeline.cuh"

TENON_KERNEL_BOUNDS(pipeline, PipelineParams, tuning::PIPELINE_THREADS, tuning::PIPELINE_BLOCKS) {
#include "pipeline_begin.cuh"
    u64 rows_all = p.rows ? min_of<u64>(*p.rows, p.rows_max) : p.rows_max;
    u64 tile_count = p.tiles ? p.tile_count : ceil_div<u64>(rows_all, tuning::PIPELINE_TILE);
    for (u64 t = blockIdx.x; t < tile_count; t += gridDim.x) {
        // Another row had no value, or the host wants no more.
        if (ld_relaxed(p.failed)) break;
        u64 first = t * tuning::PIPELINE_TILE;
        Tile tile;
        if (p.tiles) tile = p.tiles[t];
        else tile = Tile{0, (u32)first, (u32)min_of<u64>(tuning::PIPELINE_TILE, rows_all - first), 0};
#include "pipeline_tile.cuh"
        for (u32 place = threadIdx.x; place < tile.rows; place += blockDim.x) {
            const u32 row = tile.start + place, position = (u32)first + place;
#include "pipeline_row.cuh"
        }
    }
#include "pipeline_end.cuh"
}
