/* Launches decode_u4_f16 with a driver that says what it hears. */
#include <stdio.h>
#include <string.h>
#include "decode_u4_f16.h"

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	*m = (void *)image;
	return strstr(image, ".entry decode_u4_f16") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	*f = m;
	return strcmp(name, "decode_u4_f16") ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream stream, void **params, void **extra)
{
	(void)f, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
	int same = *(CUdeviceptr *)params[0] == 1 && *(int32_t *)params[6] == 3 && *(float *)params[9] == 0.5f;
	printf("launch %u %u %u, %u threads, %d params\n", gx, gy, gz, bx, same ? 10 : 0);
	return CUDA_SUCCESS;
}

int main(void)
{
	decode_u4_f16_t k;
	if (decode_u4_f16_load(&k) != CUDA_SUCCESS)
		return 1;
	if (decode_u4_f16_launch(&k, 0, 1, 2, 3, 4, 5, 6, 3, 90, 256, 0.5f) != CUDA_SUCCESS)
		return 2;
	if (decode_u4_f16_launch(&k, 0, 1, 2, 3, 4, 5, 6, 3, 90, 200, 0.5f) == CUDA_ERROR_INVALID_VALUE)
		printf("refused\n");
	return 0;
}
