// A stand-in for libcuda.so.1 that fails as STUB says: "none" (no GPU), "old" (a GPU and a driver of CUDA 10), "aged" (a driver of CUDA 11.4, too old for PTX), "memory" (no memory
// left), "pinned" (none on the host), "fault" (the first launch breaks its context), "stuck" (and no other can be made), "many" (twelve GPUs), "hang" (a launch never ends), "crash" (the driver itself
// faults), "jit" (no PTX compiles), "slow" (machine code of programs called slow is made when the file STUB_GATE is there; each adds a byte to STUB_GATE.begun; no context may go meanwhile; a launch while STUB_GATE.break is there breaks its context), or works in all but computing; "stuck+hang" is "hang" in keepers and "stuck" in other processes, "+hang" "hang" in keepers alone. The driver's own declarations are not needed: only the calling convention matters.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK 0
static int is(const char *s) {
	const char *e = getenv("STUB"), *keeper = e ? strchr(e, '+') : 0;
	if (!keeper) return e && !strcmp(e, s);
	if (getenv("TILUS_LAB_KEEPER")) return !strcmp(keeper + 1, s);
	return strlen(s) == keeper - e && !strncmp(e, s, keeper - e);
}
static int broken;   // the context has met a fault
static int refused;  // and the process gets no other
static int hung;     // a launch is running for ever
static uint64_t next = 4096;
static int bad(void) { return broken ? 700 : OK; }

int cuInit(unsigned f) { return is("none") ? 100 : OK; }
int cuDriverGetVersion(int *v) { *v = is("old") ? 10020 : is("aged") ? 11040 : 13000; return OK; }
int cuGetErrorName(int e, const char **s) { *s = e == 100 ? "CUDA_ERROR_NO_DEVICE" : e == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : e == 218 ? "CUDA_ERROR_INVALID_PTX" : e == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" : "CUDA_ERROR"; return OK; }
int cuGetErrorString(int e, const char **s) { *s = "stub"; return OK; }
int cuDeviceGetCount(int *n) { *n = is("many") ? 12 : 1; return OK; }
int cuDeviceGet(int *d, int i) { *d = i; return OK; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Stub"); return OK; }
int cuDeviceGetAttribute(int *v, int a, int d) {
	switch (a) {
	case 75: *v = is("old") ? 7 : 9; break;
	case 76: *v = 0; break;
	case 16: *v = 132; break;
	case 10: *v = 32; break;
	case 97: *v = 227 << 10; break;
	default: *v = 1024;
	}
	return OK;
}
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1ull << 37; return OK; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(next += 16); return OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return OK; }
int cuCtxCreate_v2(void **c, unsigned f, int d) { if (is("stuck") && refused) return 700; *c = (void *)(next += 16); broken = 0; return OK; }
static volatile int loading; // machine code is being made
int cuCtxDestroy_v2(void *c) { if (loading) abort(); broken = 0; return OK; }
int cuCtxPopCurrent_v2(void **c) { *c = 0; return OK; }
int cuCtxSetCurrent(void *c) { return OK; }
static int arriving; // by a copy or memset of the default stream, for which launches on other streams do not wait
int cuCtxSynchronize(void) { arriving = 0; return bad(); }
int cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *keys, void **values) {
	if (is("jit")) {
		for (unsigned i = 0; i < n; i++)
			if (keys[i] == 5) strcpy(values[i], "ptxas: stub refuses");
		return 218;
	}
	if (is("slow") && strstr(image, ".entry slow(")) {
		char begun[4096];
		snprintf(begun, sizeof begun, "%s.begun", getenv("STUB_GATE"));
		loading = 1;
		FILE *f = fopen(begun, "a");
		fputc('1', f);
		fclose(f);
		while (access(getenv("STUB_GATE"), F_OK)) usleep(1000);
		loading = 0;
	}
	*m = (void *)(next += 16);
	return is("aged") ? 222 : bad();
}
int cuModuleUnload(void *m) { return OK; }
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = (void *)(next += 16); return bad(); }
int cuFuncGetAttribute(int *v, int a, void *f) { *v = a == 0 ? 1024 : 0; return OK; }
int cuFuncSetAttribute(void *f, int a, int v) { return OK; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int b, size_t s) { *n = 1; return OK; }
static int launches; // "third": the third launch breaks its context
static int capturing; // launches are recorded, not run
static int breaks(void) { char name[4096]; snprintf(name, sizeof name, "%s.break", getenv("STUB_GATE")); return is("slow") && !access(name, F_OK); }
static int launched(void) { if (breaks()) broken = 1; if (capturing) return OK; if (arriving) return 1; if (is("third") && ++launches == 3) broken = 1; if (is("fault")) broken = 1; if (is("stuck")) broken = refused = 1; if (is("crash")) *(volatile int *)8 = 1; if (is("hang")) hung = 1; return OK; }
int cuLaunchKernel(void) { return launched(); }
int cuLaunchKernelEx(void) { return launched(); }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = *t = 1ull << 37; return OK; }
// Memory of the GPU is the host's, so that what is copied in comes out again.
int cuMemAlloc_v2(uint64_t *p, size_t n) { void *m = 0; if (is("memory") || posix_memalign(&m, 512, n + 1)) return 2; memset(m, 0, n); *p = (uint64_t)m; return bad(); }
int cuMemFree_v2(uint64_t p) { free((void *)p); return bad(); }
static int copy(uint64_t d, uint64_t s, size_t n) { memmove((void *)d, (void *)s, n); return bad(); }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { if (is("pinned")) return 2; *p = malloc(n); return OK; }
int cuMemFreeHost(void *p) { free(p); return OK; }
int cuMemcpyHtoD_v2(uint64_t d, const void *s, size_t n) { arriving = 1; return copy(d, (uint64_t)s, n); }
int cuMemcpyDtoH_v2(void *d, uint64_t s, size_t n) { return copy((uint64_t)d, s, n); }
int cuMemcpyDtoD_v2(uint64_t d, uint64_t s, size_t n) { arriving = 1; return copy(d, s, n); }
int cuMemcpyHtoDAsync_v2(uint64_t d, const void *s, size_t n, void *st) { return copy(d, (uint64_t)s, n); }
int cuMemcpyDtoHAsync_v2(void *d, uint64_t s, size_t n, void *st) { return copy((uint64_t)d, s, n); }
int cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t s, size_t n, void *st) { return copy(d, s, n); }
int cuMemsetD8_v2(uint64_t d, unsigned char v, size_t n) { arriving = 1; memset((void *)d, v, n); return bad(); }
int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *st) { memset((void *)d, v, n); return bad(); }
int cuStreamCreate(void **s, unsigned f) { *s = (void *)(next += 16); return OK; }
int cuStreamDestroy_v2(void *s) { return OK; }
int cuStreamSynchronize(void *s) { if (!s) arriving = 0; return bad(); }
int cuStreamQuery(void *s) { return hung ? 600 : bad(); }
int cuStreamWaitEvent(void *s, void *e, unsigned f) { return bad(); }
int cuStreamBeginCapture_v2(void *s, int m) { capturing = 1; return bad(); }
int cuStreamEndCapture(void *s, void **g) { capturing = 0; *g = (void *)(next += 16); return bad(); }
int cuEventCreate(void **e, unsigned f) { *e = (void *)(next += 16); return bad(); }
int cuEventDestroy_v2(void *e) { return OK; }
int cuEventRecord(void *e, void *s) { return bad(); }
int cuEventSynchronize(void *e) { return bad(); }
int cuEventQuery(void *e) { return hung ? 600 : bad(); }
#ifndef ANCIENT // built so, the library lacks a function that every driver since CUDA 11.4 has
int cuMemcpyPeer(uint64_t d, void *dc, uint64_t s, void *sc, size_t n) { arriving = 1; return copy(d, s, n); }
#endif
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 0.5; return bad(); }
int cuGraphInstantiateWithFlags(void **x, void *g, uint64_t f) { *x = (void *)(next += 16); return bad(); }
int cuGraphLaunch(void *x, void *s) { return launched(); }
int cuGraphExecDestroy(void *x) { return OK; }
int cuGraphDestroy(void *g) { return OK; }
