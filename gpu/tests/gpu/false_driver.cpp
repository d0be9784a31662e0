// A false NVIDIA driver and a false NVRTC in one library, for what a machine without a GPU can still test: each way
// to be missing or broken, and the calls around memory, streams and events. Its device memory is host memory.
// VERSION: of CUDA; DEVICES: how many; CAPABILITY: 90 for 9.0; NVRTC_MAJOR; MEMORY_BYTES: of the device;
// INIT_CODE: what cuInit answers; NO_EVENTS: leaves a symbol out; TRAP: what streams answer when waited for.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef unsigned u32;
#define API extern "C" __attribute__((visibility("default")))

#ifndef VERSION
#define VERSION 13000
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef CAPABILITY
#define CAPABILITY 90
#endif
#ifndef NVRTC_MAJOR
#define NVRTC_MAJOR 13
#endif
#ifndef MEMORY_BYTES
#define MEMORY_BYTES (1ull << 30)
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef TRAP
#define TRAP 0
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    u64 address, bytes;
} live[1000];
static u64 used = 0, handles = 0;

struct Guard {
    Guard() { pthread_mutex_lock(&lock); }
    ~Guard() { pthread_mutex_unlock(&lock); }
};

API u32 cuInit(u32) { return INIT_CODE; }
API u32 cuDriverGetVersion(int* v) { return *v = VERSION, 0; }
API u32 cuGetErrorName(u32 code, const char** text) {
    *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : code == 999 ? "CUDA_ERROR_UNKNOWN" : nullptr;
    return *text ? 0 : 1;
}
API u32 cuGetErrorString(u32 code, const char** text) {
    *text = code == 719 ? "unspecified launch failure" : code == 999 ? "unknown error" : nullptr;
    return *text ? 0 : 1;
}
API u32 cuDeviceGetCount(int* count) { return *count = DEVICES, 0; }
API u32 cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
API u32 cuDeviceGetName(char* name, int bytes, int) { return strncpy(name, "false device", bytes), 0; }
API u32 cuDeviceGetAttribute(int* value, u32 attribute, int) {
    switch (attribute) {
    case 75: *value = CAPABILITY / 10; break;
    case 76: *value = CAPABILITY % 10; break;
    case 16: *value = 132; break;
    case 38: *value = 50 << 20; break;
    case 97: *value = 227 << 10; break;
    default: return 1;
    }
    return 0;
}
API u32 cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = MEMORY_BYTES, 0; }
API u32 cuCtxCreate_v2(void** context, u32, int) { return *context = &lock, 0; }
API u32 cuCtxDestroy_v2(void*) { return 0; }
API u32 cuCtxSetCurrent(void*) { return 0; }
API u32 cuMemGetInfo_v2(size_t* free, size_t* total) {
    Guard guard;
    return *free = MEMORY_BYTES - used, *total = MEMORY_BYTES, 0;
}
API u32 cuMemAlloc_v2(u64* address, size_t bytes) {
    Guard guard;
    if (bytes == 0) return 1;
    if (used + bytes > MEMORY_BYTES) return 2;
    used += bytes;
    *address = (u64)aligned_alloc(1 << 21, (bytes + (1 << 21) - 1) >> 21 << 21);
    for (auto& l : live) {
        if (l.address) continue;
        l = {*address, bytes};
        return 0;
    }
    return 999;
}
API u32 cuMemFree_v2(u64 address) {
    Guard guard;
    for (auto& l : live) {
        if (l.address != address) continue;
        used -= l.bytes;
        l = {0, 0};
        free((void*)address);
        return 0;
    }
    return 1;
}
API u32 cuMemHostRegister_v2(void*, size_t, u32) { return 0; }
API u32 cuMemHostUnregister(void*) { return 0; }
API u32 cuMemcpyHtoDAsync_v2(u64 target, const void* source, size_t bytes, void*) { return memcpy((void*)target, source, bytes), 0; }
API u32 cuMemcpyDtoHAsync_v2(void* target, u64 source, size_t bytes, void*) { return memcpy(target, (void*)source, bytes), 0; }
API u32 cuMemcpyDtoDAsync_v2(u64 target, u64 source, size_t bytes, void*) { return memcpy((void*)target, (void*)source, bytes), 0; }
API u32 cuMemsetD8Async(u64 target, unsigned char byte, size_t bytes, void*) { return memset((void*)target, byte, bytes), 0; }
API u32 cuStreamCreate(void** stream, u32) { return *stream = (void*)__atomic_add_fetch(&handles, 1, 5), 0; }
API u32 cuStreamDestroy_v2(void*) { return 0; }
API u32 cuStreamSynchronize(void*) { return TRAP; }
API u32 cuStreamQuery(void*) { return 600; }
API u32 cuStreamWaitEvent(void*, void*, u32) { return 0; }
#ifndef NO_EVENTS
API u32 cuEventCreate(void** event, u32) { return *event = (void*)__atomic_add_fetch(&handles, 1, 5), 0; }
#endif
API u32 cuEventDestroy_v2(void*) { return 0; }
API u32 cuEventRecord(void*, void*) { return 0; }
API u32 cuEventSynchronize(void*) { return 0; }
API u32 cuEventQuery(void*) { return 0; }
API u32 cuEventElapsedTime(float* ms, void*, void*) { return *ms = 1, 0; }
API u32 cuModuleLoadData(void** module, const void*) { return *module = (void*)1, 0; }
API u32 cuModuleUnload(void*) { return 0; }
API u32 cuModuleGetFunction(void** function, void*, const char* name) { return *function = (void*)2, strcmp(name, "missing") ? 0 : 500; }
API u32 cuFuncGetAttribute(int* value, u32, void*) { return *value = 1024, 0; }
API u32 cuFuncSetAttribute(void*, u32, int) { return 0; }
API u32 cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) { return *blocks = 4, 0; }
API u32 cuLaunchKernel(void*, u32, u32, u32, u32, u32, u32, u32, void*, void**, void**) { return 999; }
API u32 cuLaunchCooperativeKernel(void*, u32, u32, u32, u32, u32, u32, u32, void*, void**) { return 999; }

API int nvrtcVersion(int* major, int* minor) { return *major = NVRTC_MAJOR, *minor = 0, 0; }
API int nvrtcGetNumSupportedArchs(int* count) { return *count = 2, 0; }
API int nvrtcGetSupportedArchs(int* archs) { return archs[0] = 80, archs[1] = 90, 0; }
API int nvrtcCreateProgram(void** program, const char*, const char*, int, const char**, const char**) { return *program = (void*)1, 0; }
API int nvrtcDestroyProgram(void**) { return 0; }
API int nvrtcCompileProgram(void*, int, const char**) { return 0; }
API int nvrtcGetProgramLogSize(void*, size_t* bytes) { return *bytes = 0, 0; }
API int nvrtcGetProgramLog(void*, char*) { return 0; }
API int nvrtcGetCUBINSize(void*, size_t* bytes) { return *bytes = 4, 0; }
API int nvrtcGetCUBIN(void*, char* code) { return memcpy(code, "code", 4), 0; }
API int nvrtcGetPTXSize(void*, size_t* bytes) { return *bytes = 4, 0; }
API int nvrtcGetPTX(void*, char* code) { return memcpy(code, "code", 4), 0; }
API const char* nvrtcGetErrorString(int) { return "an error"; }
