/* A stand-in for NVIDIA's header: what a header of gpu/export uses. */
#ifndef CUDA_H
#define CUDA_H

typedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE } CUresult;
typedef unsigned long long CUdeviceptr;
typedef void *CUmodule, *CUfunction, *CUstream;
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

CUresult cuModuleLoadData(CUmodule *m, const void *image);
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name);
CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream stream, void **params, void **extra);

#endif
