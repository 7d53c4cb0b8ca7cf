/* For tests: a library that looks like NVML to gpu_nvml.cc. Two devices with distinct digits; the
 * second one answers hardly any question, as an old driver would. */
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned gpu, memory;
} Utilization;
typedef struct {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
} Process;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} Pci;

#define API __attribute__((visibility("default")))

static int devices[2];
static int is_second(void* device) { return device == &devices[1]; }

/* FAKE_NVML_INIT: the return value of a library that does not start. */
API int nvmlInit_v2(void) {
  const char* status = getenv("FAKE_NVML_INIT");
  return status != NULL ? atoi(status) : 0;
}
API int nvmlShutdown(void) { return 0; }
API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
API int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  strncpy(name, is_second(device) ? "Second GPU" : "First GPU", length);
  return 0;
}
API int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  strncpy(version, "555.42", length);
  return 0;
}
API int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  if (is_second(device)) return 3;
  strcpy(pci->bus_id, "00000000:6A:00.0");
  return 0;
}
API int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  if (is_second(device)) return 3;
  memory->total = 1001;
  memory->free = 1002;
  memory->used = 1003;
  return 0;
}
API int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* mhz) {
  if (is_second(device)) return 3;
  *mhz = type == 1 ? 1004 : type == 2 ? 1005 : 0;
  return 0;
}
API int nvmlDeviceGetMaxClockInfo(void* device, unsigned type, unsigned* mhz) {
  if (is_second(device)) return 3;
  *mhz = type == 1 ? 1006 : 0;
  return 0;
}
API int nvmlDeviceGetPerformanceState(void* device, unsigned* state) {
  if (is_second(device)) return 3;
  *state = 8;
  return 0;
}
API int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (is_second(device)) return 3;
  *celsius = sensor == 0 ? 41 : 0;
  return 0;
}
API int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (is_second(device)) return 3;
  *milliwatts = 1007;
  return 0;
}
API int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  if (is_second(device)) return 3;
  utilization->gpu = 12;
  utilization->memory = 13;
  return 0;
}
API int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  if (is_second(device)) return 3;
  *mode = 1;
  return 0;
}
/* More processes than the first call brings room for. */
API int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  unsigned i;
  if (is_second(device)) return 3;
  if (*count < 70) {
    *count = 70;
    return 7;
  }
  *count = 70;
  for (i = 0; i < 70; ++i) {
    processes[i].pid = 100 + i;
    processes[i].used_bytes = i == 1 ? ~0ULL : 2000 + i;
  }
  return 0;
}
