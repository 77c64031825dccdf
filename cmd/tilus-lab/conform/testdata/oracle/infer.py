"""Layouts that Tilus chooses for programs in whose source a layout or a thread group stands.

    pip install numpy tabulate filelock tqdm apache-tvm-ffi jinja2 pygments
    pip download --no-deps tilus==0.2.0, unzip it into DIR
    python3 infer.py DIR > infer.json

No GPU is wanted: of PyTorch and the CUDA bindings only the names are asked for.
"""
import importlib.machinery, json, sys, types


class Names(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (), {}))
        return getattr(self, name)


for name in ["torch", "torch.cuda", "cuda", "cuda.bindings", "cuda.bindings.runtime", "cuda.bindings.driver"]:
    m = sys.modules[name] = Names(name)
    m.__spec__, m.__path__ = importlib.machinery.ModuleSpec(name, None), []
    if "." in name:
        parent, child = name.rsplit(".", 1)
        setattr(sys.modules[parent], child, m)
sys.modules["torch"].cuda.is_available = lambda: False
sys.path.insert(0, sys.argv[1])
import tilus, tilus.target
from tilus import boolean, float16, float32, int32, uint32
from tilus.ir.functors import IRVisitor
from tilus.ir.prog import Program
from tilus.lang.transpiler import Transpiler
from tilus.transforms import PassContext, apply_transforms, get_default_passes


class Rows(tilus.Script):
    def __init__(self):
        super().__init__()
        self.rows = self.cuda.resolve_dot_config(float16, float32, m=64, n=64, k=32, warp_m=4, warp_n=1)

    def __call__(self, n: int32):
        self.attrs.blocks, self.attrs.warps = [1], 4
        a = self.load_shared(self.shared_tensor(dtype=float16, shape=[64, 32]))
        b = self.load_shared(self.shared_tensor(dtype=float16, shape=[32, 64]))
        c = self.dot(a, b, acc_dtype=float32)
        self.annotate_layout(c, self.rows.lc)
        mask = self.register_tensor(dtype=boolean, shape=[64, 64], init=lambda i, j: i >= j)
        self.print_tensor("c", self.where(mask, x=c, y=0.0))


class Group(tilus.Script):
    def __call__(self, n: int32):
        self.attrs.blocks, self.attrs.warps = [1], 5
        barriers = self.mbarrier.alloc(counts=[1, 1])
        with self.thread_group(thread_begin=0, num_threads=128):
            self.mbarrier.wait(barriers[0], phase=0)


class One(tilus.Script):
    def __call__(self, n: int32):
        self.attrs.blocks, self.attrs.warps = [1], 4
        barriers = self.mbarrier.alloc(counts=[1, 1, 1])
        with self.single_thread():
            self.mbarrier.wait(barriers[2], phase=0)


def record(name, script, target):
    tilus.target.set_current_target(target)
    x = object.__new__(script)
    x.__init__()
    f = Transpiler().transpile(x, name2consts={}, name2divisibility={"n": 1}).with_name("f")
    passes = get_default_passes()
    last = max(i for i, p in enumerate(passes) if "layout" in type(p).__name__.lower())
    with PassContext():
        f = apply_transforms(Program.create(functions={"f": f}), passes[:last + 1]).functions["f"]
    ids, tensors, ops = {}, [], []

    def identity(t):
        if id(t) not in ids:
            ids[id(t)] = f"t{len(ids)}"
            tensors.append(t)
        return ids[id(t)]

    class Visitor(IRVisitor):
        def visit_Instruction(self, i):
            op = {"op": type(i).__name__.removesuffix("Inst"), "inputs": [identity(t) for t in i.inputs], "output": identity(i.output) if i.output else None}
            if op["inputs"] or op["output"]:
                ops.append(op)

    Visitor().visit(f)
    rows = []
    for t in tensors:
        l, space = t.layout, type(t).__name__.removesuffix("Tensor").lower()
        keys = ["mode_shape", "spatial_modes", "local_modes"] if space == "register" else ["mode_shape", "mode_strides"]
        lists = {"kind": space, "shape": list(l.shape), **{k: list(getattr(l, k)) for k in keys}}
        if space == "shared":
            w = l.optional_swizzle
            lists["swizzle"] = w and {"base": w.base, "bits": w.bits, "shift": w.shift}
        rows.append({"id": identity(t), "space": space, "dtype": t.dtype.name, "shape": list(t.shape), "layout": lists})
    return {"name": name, "input": {"kind": "layout_inference", "program": name, "schedule": {}, "const_args": {}, "divisibility": {"n": 1}, "target": str(target), "num_warps": f.metadata.num_warps, "ops": ops}, "expect": {"ok": True, "tensors": rows}}


sm80, sm90a = tilus.target.nvgpu_sm80, tilus.target.nvgpu_sm90a
print("[" + ",\n".join(json.dumps(record(*x)) for x in [("attention/Rows", Rows, sm80), ("barriers/Group", Group, sm90a), ("barriers/One", One, sm90a)]) + "]")
