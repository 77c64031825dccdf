/* Launches matmul_hopper_v5 with a driver that says what it hears. */
#include <stdio.h>

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	*m = (void *)image;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	(void)name;
	*f = m;
	return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	(void)f, (void)value;
	return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void say64(const cuuint64_t *a, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		printf("%s%llu", i ? " " : " [", a[i]);
	printf("]");
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dims, const cuuint64_t *strides,
	const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	if ((unsigned long)map % 64 != 0 || steps[0] != 1 || interleave || fill || promotion != 3)
		return CUDA_ERROR_INVALID_VALUE;
	map->words[0] = (cuuint64_t)base;
	printf("map %llu %d %d", (cuuint64_t)base >> 8, (int)type, (int)swizzle);
	say64(dims, rank);
	say64(strides, rank - 1);
	for (unsigned i = 0; i < rank; i++)
		printf("%s%u", i ? " " : " [", box[i]);
	printf("]\n");
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream stream, void **params, void **extra)
{
	(void)f, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
	int same = ((CUtensorMap *)params[7])->words[0] == *(CUdeviceptr *)params[0];
	printf("%slaunch %u %u %u\n", same ? "" : "wrong ", gx, gy, gz);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	if (c->numAttrs != 1 || c->attrs[0].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION || c->attrs[0].value.programmaticStreamSerializationAllowed != 1)
		return CUDA_ERROR_INVALID_VALUE;
	printf("dependent ");
	return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}

int main(void)
{
	matmul_hopper_v5_t k;
	if (matmul_hopper_v5_load(&k) != CUDA_SUCCESS || k.dependent)
		return 1;
	if (matmul_hopper_v5_launch(&k, 0, 1 << 8, 2 << 8, 3 << 8, 300, 520, 1 << 30, 4) != CUDA_SUCCESS)
		return 2;
	k.dependent = 1;
	if (matmul_hopper_v5_launch(&k, 0, 1 << 8, 2 << 8, 3 << 8, 300, 520, 1 << 30, 4) != CUDA_SUCCESS)
		return 3;
	return 0;
}
