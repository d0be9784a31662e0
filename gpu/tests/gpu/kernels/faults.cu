// Kernels that fail, each in its own way.
#include "tenon.cuh"

struct FaultParams {
    u32* data;
    u64 items, which;
};

TENON_KERNEL(fault, FaultParams) {
    u64 at = global_thread();
    switch (p.which) {
    case 0: // right
        if (at < p.items) p.data[at] = (u32)at;
        break;
    case 1: // write past the end
        if (at == 0) p.data[p.items] = 1;
        break;
    case 2: // read far past the end
        if (at == 0) p.data[0] = p.data[p.items + 100000];
        break;
    case 3: __trap(); break;
    case 4: TENON_ASSERT(at != 7); break;
    case 5: // half of the threads wait at one barrier, half at another
        if (at % 2) __syncthreads();
        else
            __syncthreads();
        break;
    case 6: // a lane that never comes
        if (at != 3) __shfl_sync(FULL_WARP, at, 0);
        else
            __syncthreads();
        break;
    case 7: // null
        if (at == 0) *(u32*)nullptr = 1;
        break;
    case 8: // misaligned
        if (at == 0) *(u32*)((u8*)p.data + 1) = 1;
        break;
    case 9: // static shared memory overrun
    {
        TENON_SHARED_ARRAY(u32, small, 4);
        if (at == 0) small[4 + p.items - p.items] = 1;
        break;
    }
    case 10: // division by zero
        if (at == 0) p.data[0] = 1 / (u32)(p.items - p.items);
        break;
    }
}

// Half of the lanes in one collective, half in another, each waiting for all.
TENON_KERNEL(divergent_collective, FaultParams) {
    u32 lane = lane_id();
    if (lane < 16) p.data[0] = __shfl_sync(FULL_WARP, lane, 0);
    else
        p.data[1] = __ballot_sync(FULL_WARP, lane == 20);
}

// A collective whose mask does not name the caller.
TENON_KERNEL(foreign_mask, FaultParams) { p.data[0] = __ballot_sync(0x1u, 1); }

// `which` words of dynamic shared memory.
TENON_KERNEL(dynamic_shared, FaultParams) {
    TENON_DYNAMIC_SHARED(u32, words);
    if (threadIdx.x == 0) {
        for (u64 i = 0; i < p.which; i++) words[i] = (u32)i;
        p.data[0] = words[p.which - 1];
    }
}

#ifdef DEEP
// More local memory than a fiber's stack has: refused when it is compiled.
TENON_KERNEL(deep, FaultParams) {
    volatile u8 local[58 << 10];
    for (u32 i = 0; i < sizeof(local); i++) local[i] = (u8)i;
    p.data[0] = local[p.which];
}
#endif

// Waits for a flag that nobody sets.
TENON_KERNEL(forever, FaultParams) {
    while (ld_acquire(p.data) != 12345) {}
}
