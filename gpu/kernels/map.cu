// Map: output[i] = expression(input[i]). Specialised by Input, Output and the generated header expression.cuh.
#include "literals.cuh"
#include "tile.cuh"

struct MapParams {
    const Input* input;
    Output* output;
    u64 items;
    u64 literals[8];
};

#include "expression.cuh"

constexpr int V = pack_items(wider<Input, Output>()), PACKS = tuning::MAP_PACKS;
constexpr u64 TILE = (u64)tuning::MAP_THREADS * PACKS * V;

TENON_KERNEL_BOUNDS(map, MapParams, tuning::MAP_THREADS, 1) {
    Literals literal{p.literals};
    u64 tile = blockIdx.x * TILE;
    const Input* input = p.input + tile;
    Output* output = p.output + tile;
    if (tile + TILE <= p.items) {
        // All loads are in flight before the first use.
        Input x[PACKS][V];
        load_strip(input, (u32)TILE, x, Input());
        Output y[PACKS][V];
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
#pragma unroll
            for (int j = 0; j < V; j++) y[i][j] = expression(x[i][j], literal);
        }
        store_strip(output, (u32)TILE, y);
    } else {
        for (u32 at = threadIdx.x; at < p.items - tile; at += blockDim.x) output[at] = expression(input[at], literal);
    }
}
