/* A stand-in for NVIDIA's header: what a header of gpu/export uses. */
#ifndef CUDA_H
#define CUDA_H

typedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE } CUresult;
typedef unsigned long long CUdeviceptr;
typedef void *CUmodule, *CUfunction, *CUstream;
typedef unsigned long long cuuint64_t;
typedef unsigned int cuuint32_t;
typedef int CUdevice;
enum { CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14 };
typedef enum { CU_TENSOR_MAP_DATA_TYPE_UINT8 } CUtensorMapDataType;
typedef enum { CU_TENSOR_MAP_INTERLEAVE_NONE } CUtensorMapInterleave;
typedef enum { CU_TENSOR_MAP_SWIZZLE_NONE } CUtensorMapSwizzle;
typedef enum { CU_TENSOR_MAP_L2_PROMOTION_NONE } CUtensorMapL2promotion;
typedef enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE } CUtensorMapFloatOOBfill;
typedef struct { cuuint64_t words[16]; } CUtensorMap;
typedef enum { CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 } CUlaunchAttributeID;
typedef struct { CUlaunchAttributeID id; char pad[4]; union { char pad[64]; int programmaticStreamSerializationAllowed; } value; } CUlaunchAttribute;
typedef struct { unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes; CUstream hStream; CUlaunchAttribute *attrs; unsigned numAttrs; } CUlaunchConfig;

CUresult cuModuleLoadData(CUmodule *m, const void *image);
CUresult cuModuleUnload(CUmodule m);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, unsigned long bytes, CUstream stream);
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name);
typedef enum {
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111
} CUdevice_attribute;
CUresult cuCtxGetDevice(CUdevice *d);
CUresult cuDeviceGetAttribute(int *to, CUdevice_attribute a, CUdevice d);
CUresult cuFuncGetAttribute(int *to, int a, CUfunction f);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *to, CUfunction f, int threads, unsigned long shared);
CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	CUstream stream, void **params, void **extra);
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dims, const cuuint64_t *strides,
	const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

#endif
