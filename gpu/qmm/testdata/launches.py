"""Multiplies by the module of a layer, beside a driver and a torch that say what they hear, as layer.c does by its header.

    python launches.py PARTS 1 8 16   # of the weights, such as "packed:uint8 scales:int16 factor", and rows of x
"""

import ctypes
import functools
import importlib
import sys
import types
from contextlib import nullcontext
from unittest.mock import MagicMock

SIZES = {"uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e8m0fnu": 1}
PLACES = {"packed": 1, "scales": 2, "zeros": 3, "bias": 4, "x": 5, "y": 6, "dense": 8, "order": 9}
following = []  # where the next tensors are made
others = iter(range(16, 1 << 20))


class Tensor:
    """What modules ask of a tensor, which is nowhere."""

    is_cuda, device = True, "cuda:0"

    def __init__(self, at, dtype, *shape):
        self.at, self.dtype, self.shape = at, dtype, shape

    def element_size(self):
        return SIZES[self.dtype]

    def data_ptr(self):
        return self.at

    def is_contiguous(self):
        return True

    def contiguous(self):
        return self

    def view(self, dtype):
        return self

    @property
    def T(self):
        return self

    def get_device(self):
        return 0

    def reshape(self, *shape):
        assert shape[-1] == self.shape[-1], (shape, self.shape)
        return self

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, part):
        size = functools.reduce(lambda a, b: a * b, self.shape[1:], self.element_size())
        start, end, _ = part.indices(self.shape[0])
        return Tensor(self.at + start * size, self.dtype, end - start, *self.shape[1:])


def make(*shape, dtype, device):
    return Tensor(following.pop() if following else next(others) << 40, dtype, *shape)


torch = sys.modules["torch"] = MagicMock()
for name in SIZES:
    setattr(torch, name, name)
torch.empty = torch.zeros = make
torch.nn.Module = object
torch.no_grad = lambda: lambda f: f
torch.cuda.device = nullcontext
torch.cuda.current_device.return_value = 0
torch.cuda.is_current_stream_capturing.return_value = False
torch.cuda.get_device_properties.return_value.multi_processor_count = 133
torch.cuda.current_stream.return_value.cuda_stream = 5

maps = []


class Driver:
    def __init__(self, program):
        self.program = program

    def cuCtxGetCurrent(self, context):
        context._obj.value = 1
        return 0

    def cuCtxGetDevice(self, to):
        to._obj.value = 6
        return 0

    def cuDeviceGetAttribute(self, to, what, device):
        to._obj.value = {16: 133, 81: 233472, 97: 232448, 111: 1024}[what]
        return device - 6

    def cuFuncGetAttribute(self, to, what, function):
        to._obj.value = 512
        return what - 1

    def cuFuncSetAttribute(self, function, what, value):
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, to, function, threads, shared):
        to._obj.value = 5
        return 0

    def cuTensorMapEncodeTiled(self, held, kind, rank, base, dims, strides, box, steps, interleave, swizzle, promotion, fill):
        strides = [0, *list(strides)[: rank - 1]]
        text = ", ".join(f"{d} by {s} box {b} step {e}" for d, s, b, e in zip(dims, strides, box, steps, strict=True))
        ctypes.c_uint64.from_buffer(held._obj).value = len(maps)
        maps.append(f"map[type {kind} @{base.value:x}, {text}, {interleave} {swizzle} {promotion} {fill}]")
        return 0

    def cuLaunchKernel(self, function, x, y, z, bx, by, bz, shared, stream, pointers, extra, dependent=0):
        values = []
        kinds = [p[1] for p in self.program.PARAMS]
        for i, at in enumerate(pointers):
            if i >= len(kinds):
                values.append(maps[ctypes.c_uint64.from_address(at).value])
            elif kinds[i][0] == "*":
                values.append(f"@{ctypes.c_uint64.from_address(at).value:x}")
            elif kinds[i] == "f32":
                values.append(f"{ctypes.c_float.from_address(at).value:.9g}")
            else:
                values.append(str({"i32": ctypes.c_int32}[kinds[i]].from_address(at).value))
        print(f"launch {function} {x} {y} {z} blocks of {bx} {by} {bz}, shared {shared}, stream {getattr(stream, 'value', stream)}, dependent {dependent}:", *values)
        return 0

    def cuLaunchKernelEx(self, config, function, pointers, extra):
        c = config._obj
        a = c.attributes[0]
        assert (c.n, a.id) == (1, 6), a
        return self.cuLaunchKernel(function, c.x, c.y, c.z, c.bx, c.by, c.bz, c.shared, c.stream, pointers, extra, a.value[0])


layer = importlib.import_module("linear_of")
for program in list(sys.modules.values()):
    if isinstance(program, types.ModuleType) and hasattr(program, "ENTRY"):
        program._driver = functools.partial(lambda d: d, Driver(program))
        program._function = functools.partial(lambda entry, context: entry, program.ENTRY)



def weights(part):
    """A part of the weights, such as scales:int16."""
    name, _, dtype = part.partition(":")
    return {"factor": 0.375, "exact": False}[name] if not dtype else Tensor(PLACES[name] << 40, dtype, 1)  # not exact: programs alone


packed = Tensor(PLACES["packed"] << 40, "uint8", layer._PACKED)
print(f"set @{packed.at:x} {layer._PACKED} bytes 0 stream 5")
layer.pack_of.launch(weights("dense:uint8"), packed, layer.N, layer.K)
for dependent in False, True:
    for rows in map(int, sys.argv[2:]):
        print(rows, "rows")
        following.append(PLACES["y"] << 40)
        layer._product(Tensor(PLACES["x"] << 40, layer.ACT, rows, layer.K), *map(weights, sys.argv[1].split()), dependent)
