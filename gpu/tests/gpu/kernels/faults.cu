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

// Waits for a flag that nobody sets.
TENON_KERNEL(forever, FaultParams) {
    while (ld_acquire(p.data) != 12345) {}
}
