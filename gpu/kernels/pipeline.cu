// A fused pipeline: rows of a table's segments, or of a table made by an earlier pipeline, through generated code up to a
// sink. Specialised by five pieces of it: what a block begins with, what it has of a tile, which rows it looks at first, what
// it does with a row, and how it ends.
//
// Where a row has far to go, the rows that pass the first conditions are listed (`lists`), so that the threads of a warp go
// that way together; where most rows pass, the next tiles do without the list.
#include "pipeline.cuh"

TENON_KERNEL_BOUNDS(pipeline, PipelineParams, tuning::PIPELINE_THREADS, tuning::PIPELINE_BLOCKS) {
#include "pipeline_begin.cuh"
    TENON_SHARED_ARRAY(u16, list, tuning::PIPELINE_TILE);
    TENON_SHARED(u32, listed);
    u32 direct = 0;
    u64 rows_all = p.rows ? min_of<u64>(*p.rows, p.rows_max) : p.rows_max;
    u64 tile_count = p.tiles ? p.tile_count : ceil_div<u64>(rows_all, tuning::PIPELINE_TILE);
    for (u64 t = blockIdx.x; t < tile_count; t += gridDim.x) {
        // Another row had no value, or the host wants no more.
        if (lists ? __syncthreads_or(ld_relaxed(p.failed)) : ld_relaxed(p.failed)) break;
        u64 first = t * tuning::PIPELINE_TILE;
        Tile tile;
        if (p.tiles) tile = p.tiles[t];
        else tile = Tile{0, (u32)first, (u32)min_of<u64>(tuning::PIPELINE_TILE, rows_all - first), 0};
#include "pipeline_tile.cuh"
        u32 rows = tile.rows;
        const bool from_list = lists && direct == 0;
        if (from_list) {
            if (threadIdx.x == 0) listed = 0;
            __syncthreads();
            for (u32 place = threadIdx.x; place < tile.rows; place += blockDim.x) {
                const u32 row = tile.start + place;
#include "pipeline_first.cuh"
            }
            __syncthreads();
            rows = listed;
            if (rows > tile.rows / 2) direct = tuning::PIPELINE_DIRECT;
        } else if (lists) {
            direct--;
        }
        for (u32 i = threadIdx.x; i < rows; i += blockDim.x) {
            const u32 place = from_list ? list[i] : i;
            const u32 row = tile.start + place, position = (u32)(first + p.tile_first * tuning::PIPELINE_TILE) + place;
#include "pipeline_row.cuh"
        }
    }
#include "pipeline_end.cuh"
}
