package cuda

import "strings"

// symbol numbers a driver function.
type symbol int

const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxCreate
	cuCtxDestroy
	cuCtxPopCurrent
	cuCtxSetCurrent
	cuCtxSynchronize
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuFuncGetParamInfo
	cuOccupancyMaxActiveBlocksPerMultiprocessor
	cuLaunchKernel
	cuLaunchKernelEx
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoD
	cuMemcpyDtoH
	cuMemcpyDtoD
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8
	cuMemsetD8Async
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamQuery
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventSynchronize
	cuEventElapsedTime
	cuEventQuery
	cuMemcpyPeer
	cuGraphInstantiateWithFlags
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphDestroy
	cuTensorMapEncodeTiled
	cuLinkCreate
	cuLinkAddData
	cuLinkComplete
	cuLinkDestroy
	symbolCount
)

// symbolNames are the names that libcuda exports; _v2 is the 64-bit form that cuda.h maps the plain
// name to.
var symbolNames = [symbolCount]string{
	cuInit:                    "cuInit",
	cuDriverGetVersion:        "cuDriverGetVersion",
	cuGetErrorName:            "cuGetErrorName",
	cuGetErrorString:          "cuGetErrorString",
	cuDeviceGetCount:          "cuDeviceGetCount",
	cuDeviceGet:               "cuDeviceGet",
	cuDeviceGetName:           "cuDeviceGetName",
	cuDeviceGetAttribute:      "cuDeviceGetAttribute",
	cuDeviceTotalMem:          "cuDeviceTotalMem_v2",
	cuDevicePrimaryCtxRetain:  "cuDevicePrimaryCtxRetain",
	cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxCreate:               "cuCtxCreate_v2",
	cuCtxDestroy:              "cuCtxDestroy_v2",
	cuCtxPopCurrent:           "cuCtxPopCurrent_v2",
	cuCtxSetCurrent:           "cuCtxSetCurrent",
	cuCtxSynchronize:          "cuCtxSynchronize",
	cuModuleLoadDataEx:        "cuModuleLoadDataEx",
	cuModuleUnload:            "cuModuleUnload",
	cuModuleGetFunction:       "cuModuleGetFunction",
	cuFuncGetAttribute:        "cuFuncGetAttribute",
	cuFuncSetAttribute:        "cuFuncSetAttribute",
	cuFuncGetParamInfo:        "cuFuncGetParamInfo",
	cuOccupancyMaxActiveBlocksPerMultiprocessor: "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	cuLaunchKernel:              "cuLaunchKernel",
	cuLaunchKernelEx:            "cuLaunchKernelEx",
	cuMemGetInfo:                "cuMemGetInfo_v2",
	cuMemAlloc:                  "cuMemAlloc_v2",
	cuMemFree:                   "cuMemFree_v2",
	cuMemHostAlloc:              "cuMemHostAlloc",
	cuMemFreeHost:               "cuMemFreeHost",
	cuMemcpyHtoD:                "cuMemcpyHtoD_v2",
	cuMemcpyDtoH:                "cuMemcpyDtoH_v2",
	cuMemcpyDtoD:                "cuMemcpyDtoD_v2",
	cuMemcpyHtoDAsync:           "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync:           "cuMemcpyDtoHAsync_v2",
	cuMemcpyDtoDAsync:           "cuMemcpyDtoDAsync_v2",
	cuMemsetD8:                  "cuMemsetD8_v2",
	cuMemsetD8Async:             "cuMemsetD8Async",
	cuStreamCreate:              "cuStreamCreate",
	cuStreamDestroy:             "cuStreamDestroy_v2",
	cuStreamSynchronize:         "cuStreamSynchronize",
	cuStreamQuery:               "cuStreamQuery",
	cuStreamWaitEvent:           "cuStreamWaitEvent",
	cuStreamBeginCapture:        "cuStreamBeginCapture_v2",
	cuStreamEndCapture:          "cuStreamEndCapture",
	cuEventCreate:               "cuEventCreate",
	cuEventDestroy:              "cuEventDestroy_v2",
	cuEventRecord:               "cuEventRecord",
	cuEventSynchronize:          "cuEventSynchronize",
	cuEventElapsedTime:          "cuEventElapsedTime",
	cuEventQuery:                "cuEventQuery",
	cuMemcpyPeer:                "cuMemcpyPeer",
	cuGraphInstantiateWithFlags: "cuGraphInstantiateWithFlags",
	cuGraphLaunch:               "cuGraphLaunch",
	cuGraphExecDestroy:          "cuGraphExecDestroy",
	cuGraphDestroy:              "cuGraphDestroy",
	cuTensorMapEncodeTiled:      "cuTensorMapEncodeTiled",
	cuLinkCreate:                "cuLinkCreate_v2",
	cuLinkAddData:               "cuLinkAddData_v2",
	cuLinkComplete:              "cuLinkComplete",
	cuLinkDestroy:               "cuLinkDestroy",
}

// optional says that drivers old enough to lack the symbol still serve.
func (s symbol) optional() bool {
	return s >= cuLinkCreate && s <= cuLinkDestroy || s == cuFuncGetParamInfo || s == cuLaunchKernelEx || s == cuTensorMapEncodeTiled // since CUDA 12.4, 11.8, 12.0
}

// base is the name that the documentation uses.
func (s symbol) base() string { return strings.TrimSuffix(symbolNames[s], "_v2") }
