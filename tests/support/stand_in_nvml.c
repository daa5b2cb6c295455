/* A stand-in for libnvidia-ml.so.1: one card whose answers a test chooses with -D. Signatures as in nvml.h. */
#include <string.h>
#include <unistd.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef MEMORY
#define MEMORY 0
#endif
#ifndef LOAD
#define LOAD 0
#endif
#ifndef MIG
#define MIG 0
#endif
#ifndef PROCESSES
#define PROCESSES 0
#endif
#ifndef RECEIVED_KB
#define RECEIVED_KB 2000000u
#endif
#ifndef SENT_KB
#define SENT_KB 30000u
#endif
#ifndef OURS
#define OURS (3ull << 30)
#endif

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;

int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = (void *)(1ul + index); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned int length) { strncpy(name, "Stand-in 24GB", length); return 0; }

int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 24ull << 30; memory->used = 5ull << 30; memory->free = memory->total - memory->used;
    return MEMORY;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization_t *use) { use->gpu = 42; use->memory = 7; return LOAD; }
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next) { *now = *next = MIG; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation) { *generation = 4; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *width) { *width = 16; return 0; }

int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned int *kilobytes) {
    *kilobytes = counter == 0 ? SENT_KB : RECEIVED_KB; /* 0: NVML_PCIE_UTIL_TX_BYTES, as the card sees it */
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *found) {
    *count = 2;
    found[0].pid = (unsigned int)getpid(); found[0].used = OURS;
    found[1].pid = 1; found[1].used = 1ull << 30;
    return PROCESSES;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, process_t *found) {
    *count = 0;
    return PROCESSES;
}
#endif
