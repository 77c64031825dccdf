/* Launches decode_u4_f16 dependently, with several numbers of blocks, by a driver that says what it hears: of a GPU of four
   multiprocessors, which have room for five blocks. */
#include <stdio.h>
#include "decode_u4_f16.h"

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

CUresult cuCtxGetDevice(CUdevice *d)
{
	*d = 6;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *to, CUdevice_attribute a, CUdevice d)
{
	*to = a == 16 ? 4 : a == 81 ? 233472 : a == 97 ? 232448 : a == 111 ? 1024 : -1;
	return d == 6 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetAttribute(int *to, int a, CUfunction f)
{
	(void)f;
	*to = 512;
	return a == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *to, CUfunction f, int threads, unsigned long shared)
{
	(void)f;
	*to = 5;
	return threads == 64 && shared == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	(void)f;
	printf("set %d %d\n", attribute, value);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream stream, void **params, void **extra)
{
	(void)f, (void)bx, (void)by, (void)bz, (void)stream, (void)params, (void)extra;
	printf("%u blocks %u\n", gx * gy * gz, shared);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	return cuLaunchKernel(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}

int main(void)
{
	const int outputs[] = {128, 192, 320, 192, 640, 320, 96};
	decode_u4_f16_t k;
	if (decode_u4_f16_load(&k) != CUDA_SUCCESS)
		return 1;
	k.dependent = 1;
	for (int i = 0; i < 7; i++)
		if (decode_u4_f16_launch(&k, 0, 256, 512, 768, 1024, 1, outputs[i], 256, 0.5f) != CUDA_SUCCESS)
			return 2;
	k.dependent = 0;
	return decode_u4_f16_launch(&k, 0, 256, 512, 768, 1024, 1, 320, 256, 0.5f) != CUDA_SUCCESS;
}
