/* Multiplies by the header of a layer, beside a driver that says what it hears. glue.h, which the test writes, names the header, what
   its functions take, and the parameters of programs: p a pointer, i an int32_t, f a float, m a tensor map. */
#include <stdio.h>
#include <stdlib.h>
#include "glue.h"

static const CUstream stream = (CUstream)5;
static int left, loaded; /* loads until one fails, and modules that are loaded */
static char maps[1 << 10][512];
static int n_maps;

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	if (left-- == 0)
		return (CUresult)700;
	loaded++;
	*m = (void *)image;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
	loaded--;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	(void)m;
	*f = (void *)name;
	return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, unsigned long bytes, CUstream s)
{
	printf("set @%llx %lu bytes %d stream %d\n", to, bytes, value, (int)(intptr_t)s);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *d)
{
	*d = 6;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *to, CUdevice_attribute a, CUdevice d)
{
	*to = a == 16 ? 133 : a == 81 ? 233472 : a == 97 ? 232448 : a == 111 ? 1024 : -1;
	return d == 6 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetAttribute(int *to, int a, CUfunction f)
{
	(void)f;
	*to = 512;
	return a == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	(void)f, (void)attribute, (void)value;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *to, CUfunction f, int threads, unsigned long shared)
{
	(void)f, (void)threads, (void)shared;
	*to = 5;
	return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dims, const cuuint64_t *strides,
	const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	if ((uintptr_t)map % 64 != 0)
		return CUDA_ERROR_INVALID_VALUE;
	int n = sprintf(maps[n_maps % 1024], "map[type %d @%llx", (int)type, (unsigned long long)base);
	for (cuuint32_t i = 0; i < rank; i++)
		n += sprintf(maps[n_maps % 1024] + n, ", %llu by %llu box %u step %u", dims[i], i ? strides[i - 1] : 0, box[i], steps[i]);
	sprintf(maps[n_maps % 1024] + n, ", %d %d %d %d]", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
	map->words[0] = (cuuint64_t)(n_maps++ % 1024);
	return CUDA_SUCCESS;
}

static CUresult say(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, int dependent, void **params)
{
	const char *name = (const char *)f, *kinds = 0;
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		if (strcmp(programs[i][0], name) == 0)
			kinds = programs[i][1];
	if (!kinds)
		return CUDA_ERROR_INVALID_VALUE;
	printf("launch %s %u %u %u blocks of %u %u %u, shared %u, stream %d, dependent %d:", name, gx, gy, gz, bx, by, bz, shared, (int)(intptr_t)s, dependent);
	for (int i = 0; kinds[i]; i++)
		switch (kinds[i]) {
		case 'p':
			printf(" @%llx", *(CUdeviceptr *)params[i]);
			break;
		case 'i':
			printf(" %d", *(int32_t *)params[i]);
			break;
		case 'f':
			printf(" %.9g", *(float *)params[i]);
			break;
		default:
			printf(" %s", maps[((CUtensorMap *)params[i])->words[0]]);
		}
	printf("\n");
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream s, void **params, void **extra)
{
	(void)extra;
	return say(f, gx, gy, gz, bx, by, bz, shared, s, 0, params);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	(void)extra;
	if (c->numAttrs != 1 || c->attrs->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
		return CUDA_ERROR_INVALID_VALUE;
	return say(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, c->attrs->value.programmaticStreamSerializationAllowed, params);
}

#define HOLD(what) \
	do { \
		if (!(what)) { \
			printf("wrong: %s\n", #what); \
			return 1; \
		} \
	} while (0)

/* The buffers of products: each has room of 2^40 bytes. */
#define AT(i) ((CUdeviceptr)(i) << 40)
enum { PACKED = 1, SCALES, ZEROS, BIAS, X, Y, WORKSPACE, DENSE, ORDER };

/* Argument: the most rows, then rows of products; a 0 first has loads fail instead. */
int main(int n, char **args)
{
	linear_of_t k;
	const int64_t most = n > 1 ? atoll(args[1]) : 0;
	if (most == 0) {
		int loads;
		for (left = 0;; left = loads + 1) { /* fails one load later each time */
			CUresult r;
			loads = left;
			r = linear_of_load(&k, 1);
			HOLD(r == CUDA_SUCCESS || (r == 700 && loaded == 0));
			if (r == CUDA_SUCCESS)
				break;
		}
		HOLD(linear_of_unload(&k) == CUDA_SUCCESS && loaded == 0);
		HOLD(linear_of_load(&k, 0) == CUDA_ERROR_INVALID_VALUE && linear_of_load(&k, linear_of_ROWS + 1) == CUDA_ERROR_INVALID_VALUE);
		HOLD(linear_of_workspace(0) == 0 && linear_of_workspace(linear_of_ROWS + 1) == 0);
		printf("failed %d times\n", loads);
		return 0;
	}
	left = 1000;
	HOLD(linear_of_load(&k, most) == CUDA_SUCCESS);
	printf("workspace %llu bytes\n", (unsigned long long)linear_of_workspace(most));
	if (n == 2) { /* what is refused */
		HOLD(linear_of_pack(&k, stream, 0, AT(PACKED)) == CUDA_ERROR_INVALID_VALUE && linear_of_pack(&k, stream, AT(DENSE), 0) == CUDA_ERROR_INVALID_VALUE);
		HOLD(linear_of_pack(&k, stream, AT(DENSE) + 16, AT(PACKED)) == CUDA_ERROR_INVALID_VALUE && linear_of_pack(0, stream, AT(DENSE), AT(PACKED)) == CUDA_ERROR_INVALID_VALUE);
		HOLD(RUN(&k, AT(X), AT(Y), 0, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE && RUN(&k, AT(X), AT(Y), most + 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE);
		HOLD(RUN(&k, 0, AT(Y), 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE && RUN(&k, AT(X), 0, 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE);
		HOLD(RUN(&k, AT(X), AT(Y), 1, 0) == (linear_of_workspace(most) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
		HOLD(RUN(&k, AT(X) + 128, AT(Y), 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE && RUN(&k, AT(X), AT(Y) + 2, 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE);
		HOLD(RUN(&k, AT(X), AT(Y), 1, AT(WORKSPACE) + 64) == CUDA_ERROR_INVALID_VALUE && RUN((linear_of_t *)0, AT(X), AT(Y), 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE);
		HOLD(linear_of_unload(&k) == CUDA_SUCCESS && linear_of_unload(0) == CUDA_ERROR_INVALID_VALUE);
		HOLD(RUN(&k, AT(X), AT(Y), 1, AT(WORKSPACE)) == CUDA_ERROR_INVALID_VALUE && linear_of_pack(&k, stream, AT(DENSE), AT(PACKED)) == CUDA_ERROR_INVALID_VALUE);
		return 0;
	}
	HOLD(linear_of_pack(&k, stream, AT(DENSE), AT(PACKED)) == CUDA_SUCCESS);
	for (k.dependent = 0; k.dependent < 2; k.dependent++)
		for (int i = 2; i < n; i++) {
			printf("%s rows\n", args[i]);
			HOLD(RUN(&k, AT(X), AT(Y), atoll(args[i]), AT(WORKSPACE)) == CUDA_SUCCESS);
		}
	HOLD(linear_of_unload(&k) == CUDA_SUCCESS && loaded == 0);
	return 0;
}
