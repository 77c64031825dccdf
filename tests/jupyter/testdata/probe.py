#!/usr/bin/env python3
"""Black-box probe for any Jupyter kernel.

    python3 jupyter_probe.py KERNELNAME [--profile go|gonb|python|FILE.json]
                             [--only g1,g2] [--skip g1,g2] [--reps 50]
                             [--log FILE] [--timeout 60]

Prints one JSON object of figures on standard output. The kernel is started
with jupyter_client's KernelManager from its installed kernelspec; everything
after that goes over this script's own plain zmq sockets, so that the figures
do not depend on the version of the client library. Needs: jupyter_client and
pyzmq (Debian: python3-jupyter-client). If jupyter_kernel_test is importable,
every message received is validated against its schema as well.

A profile is a table of code snippets in the kernel's language; a JSON file
with the same keys overrides single snippets of the profile it names in "base".
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import uuid

import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session

try:
    from jupyter_kernel_test.msgspec_v5 import validate_message
except Exception:  # noqa: BLE001
    validate_message = None

MB = 1 << 20

# --------------------------------------------------------------- snippets ---
GO = {
    "setup": 'import (\n\t"fmt"\n\t"log"\n\t"os"\n\t"strings"\n\t"time"\n)',
    "one": "1+1",
    "vary": "1+%d",
    "set": "probeX := 41",
    "get": "probeX + 1",
    "redecl_var": ['probeV := 1', 'probeV := "two"', "probeV"],
    "redecl_func": ["func probeF() int { return 1 }",
                    'func probeF() string { return "two" }', "probeF()"],
    "redecl_type": ["type probeT struct{ A int }",
                    "type probeT struct{ B string }", 'probeT{B: "two"}'],
    "redecl_import": ['import "fmt"', 'import "fmt"', 'fmt.Sprint("two")'],
    "use_before_decl": ["func probeG() int { return probeH() }\nfunc probeH() int { return 2 }",
                        "probeG()"],
    "compile_error": "probeOK := 1\nprobeUndefined + 1",
    "syntax_error": "probeQ := (1 +",
    "runtime_error": "var probeA []int\nprobeA[5]",
    "nil_deref": "var probeP *int\n*probeP",
    "explicit_panic": 'panic("probe panic")',
    "goroutine_panic": 'go func() { panic("probe goroutine panic") }()\ntime.Sleep(500 * time.Millisecond)',
    "exit": "os.Exit(3)",
    "stack_overflow": "func probeRec(n int) int { return probeRec(n+1) + 1 }\nprobeRec(0)",
    "loop_empty": "for {\n}",
    "loop_work": "probeN := 0\nfor {\n\tprobeN++\n}",
    "loop_sleep": "for {\n\ttime.Sleep(10 * time.Millisecond)\n}",
    "block_chan": "<-make(chan int)",
    "loop_print": 'for {\n\tfmt.Println("spam")\n}',
    "sleep2": "time.Sleep(2 * time.Second)",
    "stream": 'for i := 0; i < 5; i++ {\n\tfmt.Println("tick", i)\n\ttime.Sleep(200 * time.Millisecond)\n}',
    "interleave": 'for i := 0; i < 20; i++ {\n\tfmt.Fprintln(os.Stdout, "o", i)\n\tfmt.Fprintln(os.Stderr, "e", i)\n}',
    "flood": 'for i := 0; i < 100000; i++ {\n\tfmt.Println("line", i)\n}',
    "late_output": 'go func() {\n\ttime.Sleep(700 * time.Millisecond)\n\tfmt.Println("late")\n}()\nfmt.Println("now")',
    "builtin_println": 'println("builtin")',
    "log": 'log.Println("logged")',
    "unicode_print": 'fmt.Println("h\u00e9llo \u4e16\u754c \U0001F642")',
    "unicode_value": '"h\u00e9llo \u4e16\u754c \U0001F642"',
    "display_1mb": 'Display(display.HTML(strings.Repeat("x", 1048576)))',
    "display_svg_1mb": 'display.SVG("<svg xmlns=\'http://www.w3.org/2000/svg\'><path d=\\"" + strings.Repeat("M 1 2\\nL 3 4", 95326) + "\\"/></svg>")',
    "display_svg_last": 'display.SVG("<svg xmlns=\'http://www.w3.org/2000/svg\'/>")',
    "display_then_result": 'Display(display.Markdown("**a**"))\n7',
    "cpu_1e7": "probeSum := 0\nfor i := 0; i < 10000000; i++ {\n\tprobeSum += i\n}\nprobeSum",
    "stdin": 'var probeS string\nfmt.Scanln(&probeS)\nfmt.Println("got", probeS)',
    "complete": ["fmt.Printl", "Println"],
    "complete_local": ["probe", "probeX"],
    "complete_unicode": ['_ = "\U0001F642"; fmt.Printl', "Println"],
    "inspect": ["fmt.Println", 11],
    "is_complete": {"complete": "1 + 1", "incomplete": "for i := 0; i < 3; i++ {",
                    "invalid": ")("},
    "help": "%help",
    "shell": "$echo probe-shell",
    "expect_get": "42",
}
GONB = dict(GO, **{
    "setup": "%%\nfmt.Println(\"ready\")",
    "one": "%%\nfmt.Println(1+1)",
    "vary": "%%%%\nfmt.Println(1+%d)",
    "display_setup": "!*go get github.com/janpfeifer/gonb@v0.11.4",
    "set": "var probeX = 41",
    "get": "%%\nfmt.Println(probeX + 1)",
    "redecl_var": ['var probeV = 1', 'var probeV = "two"', "%%\nfmt.Println(probeV)"],
    "redecl_func": ["func probeF() int { return 1 }", 'func probeF() string { return "two" }',
                    "%%\nfmt.Println(probeF())"],
    "redecl_type": ["type probeT struct{ A int }", "type probeT struct{ B string }",
                    '%%\nfmt.Println(probeT{B: "two"})'],
    "redecl_import": ['import "fmt"', 'import "fmt"', '%%\nfmt.Println("two")'],
    "use_before_decl": ["func probeG() int { return probeH() }\nfunc probeH() int { return 2 }",
                        "%%\nfmt.Println(probeG())"],
    "compile_error": "%%\nprobeOK := 1\n_ = probeUndefined + 1",
    "syntax_error": "%%\nprobeQ := (1 +",
    "runtime_error": "%%\nvar probeA []int\nfmt.Println(probeA[5])",
    "nil_deref": "%%\nvar probeP *int\nfmt.Println(*probeP)",
    "explicit_panic": '%%\npanic("probe panic")',
    "goroutine_panic": '%%\ngo func() { panic("probe goroutine panic") }()\ntime.Sleep(500 * time.Millisecond)',
    "exit": "%%\nos.Exit(3)",
    "stack_overflow": "func probeRec(n int) int { return probeRec(n+1) + 1 }\n%%\nfmt.Println(probeRec(0))",
    "loop_empty": "%%\nfor {\n}",
    "loop_work": "%%\nprobeN := 0\nfor {\n\tprobeN++\n}",
    "loop_sleep": "%%\nfor {\n\ttime.Sleep(10 * time.Millisecond)\n}",
    "block_chan": "%%\ngo func() { for { time.Sleep(time.Second) } }()\n<-make(chan int)",
    "loop_print": '%%\nfor {\n\tfmt.Println("spam")\n}',
    "sleep2": "%%\ntime.Sleep(2 * time.Second)",
    "stream": "%%\n" + GO["stream"],
    "interleave": "%%\n" + GO["interleave"],
    "flood": "%%\n" + GO["flood"],
    "late_output": "%%\n" + GO["late_output"],
    "builtin_println": "%%\n" + GO["builtin_println"],
    "log": "%%\n" + GO["log"],
    "unicode_print": "%%\n" + GO["unicode_print"],
    "unicode_value": "%%\n" + GO["unicode_print"],
    "display_1mb": 'import "github.com/janpfeifer/gonb/gonbui"\n%%\ngonbui.DisplayHTML(strings.Repeat("x", 1048576))',
    "display_svg_1mb": 'import "github.com/janpfeifer/gonb/gonbui"\n%%\ngonbui.DisplaySVG("<svg xmlns=\'http://www.w3.org/2000/svg\'><path d=\\"" + strings.Repeat("M 1 2\\nL 3 4", 95326) + "\\"/></svg>")',
    "display_svg_last": 'import "github.com/janpfeifer/gonb/gonbui"\n%%\ngonbui.DisplaySVG("<svg xmlns=\'http://www.w3.org/2000/svg\'/>")',
    "display_then_result": 'import "github.com/janpfeifer/gonb/gonbui"\n%%\ngonbui.DisplayMarkdown("**a**")\nfmt.Println(7)',
    "cpu_1e7": "%%\nprobeSum := 0\nfor i := 0; i < 10000000; i++ {\n\tprobeSum += i\n}\nfmt.Println(probeSum)",
    "stdin": '%with_inputs\n!read X; echo got $X',
    "complete": ["import \"fmt\"\nfunc main() {\n\tfmt.Printl", "Println"],
    "complete_local": ["func main() {\n\t_ = probe", "probeX"],
    "complete_unicode": ['import "fmt"\nfunc main() {\n\t_ = "\U0001F642"; fmt.Printl', "Println"],
    "inspect": ["import \"fmt\"\nfunc main() {\n\tfmt.Println(1)\n}\n", 36],
    "shell": "!echo probe-shell",
})
PYTHON = {
    "setup": "import os, sys, time, threading\nfrom IPython.display import display, HTML, SVG, Markdown",
    "one": "1+1",
    "vary": "1+%d",
    "set": "probeX = 41",
    "get": "probeX + 1",
    "redecl_var": ["probeV = 1", "probeV = 'two'", "probeV"],
    "redecl_func": ["def probeF(): return 1", "def probeF(): return 'two'", "probeF()"],
    "redecl_type": ["class probeT: a=1", "class probeT: b='two'", "probeT.b"],
    "redecl_import": ["import os", "import os", "str('two')"],
    "use_before_decl": ["def probeG(): return probeH()\ndef probeH(): return 2", "probeG()"],
    "compile_error": "probeOK = 1\nprobeUndefined + 1",
    "syntax_error": "probeQ = (1 +",
    "runtime_error": "probeA = []\nprobeA[5]",
    "nil_deref": "import ctypes\nctypes.string_at(0)",
    "explicit_panic": "raise RuntimeError('probe panic')",
    "goroutine_panic": "def _t(): raise RuntimeError('probe thread')\nthreading.Thread(target=_t).start()\ntime.sleep(0.5)",
    "exit": "os._exit(3)",
    "stack_overflow": "def probeRec(n): return probeRec(n+1)+1\nprobeRec(0)",
    "loop_empty": "while True: pass",
    "loop_work": "probeN = 0\nwhile True: probeN += 1",
    "loop_sleep": "while True: time.sleep(0.01)",
    "block_chan": "import queue\nqueue.Queue().get()",
    "loop_print": "while True: print('spam')",
    "sleep2": "time.sleep(2)",
    "stream": "for i in range(5):\n    print('tick', i); time.sleep(0.2)",
    "interleave": "for i in range(20):\n    print('o', i); print('e', i, file=sys.stderr)",
    "flood": "for i in range(100000): print('line', i)",
    "late_output": "def _l():\n    time.sleep(0.7); print('late')\nthreading.Thread(target=_l).start()\nprint('now')",
    "builtin_println": "os.write(1, b'builtin\\n')",
    "log": "import logging; logging.warning('logged')",
    "unicode_print": "print('h\u00e9llo \u4e16\u754c \U0001F642')",
    "unicode_value": "'h\u00e9llo \u4e16\u754c \U0001F642'",
    "display_1mb": "display(HTML('x'*1048576))",
    "display_svg_1mb": """SVG('<svg xmlns="http://www.w3.org/2000/svg"><path d="' + 'M 1 2%sL 3 4' % chr(10) * 95326 + '"/></svg>')""",
    "display_svg_last": "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
    "display_then_result": "display(Markdown('**a**'))\n7",
    "cpu_1e7": "probeSum = 0\nfor i in range(10000000):\n    probeSum += i\nprobeSum",
    "stdin": "print('got', input('name? '))",
    "complete": ["os.getcw", "getcwd"],
    "complete_local": ["probe", "probeX"],
    "complete_unicode": ['_ = "\U0001F642"; os.getcw', "getcwd"],
    "inspect": ["os.getcwd", 9],
    "is_complete": {"complete": "1 + 1", "incomplete": "for i in range(3):", "invalid": ")("},
    "help": "%lsmagic",
    "shell": "!echo probe-shell",
    "expect_get": "42",
}
PROFILES = {"go": GO, "gonb": GONB, "python": PYTHON}


# ----------------------------------------------------------------- client ---
class Dead(Exception):
    pass


class Probe:
    def __init__(self, name, log, timeout):
        self.name, self.log, self.timeout = name, log, timeout
        self.km = None
        self.schema_bad = {}
        self.schema_ok = 0
        self.parent_bad = 0

    # -- life
    def start(self):
        self.stop()
        self.km = KernelManager(kernel_name=self.name)
        t0 = time.perf_counter()
        self.km.start_kernel(stdout=self.log, stderr=self.log)
        self.connect()
        ready, iopub, welcome, starting = self.wait_ready(t0)
        return {"start_to_kernel_info_s": ready, "start_to_iopub_s": iopub,
                "iopub_welcome": welcome, "status_starting_seen": starting}

    def connect(self):
        i = self.km.get_connection_info()
        key = i["key"]
        self.session = Session(key=key if isinstance(key, bytes) else key.encode(),
                               signature_scheme=i["signature_scheme"])
        self.ctx = zmq.Context()
        ident = uuid.uuid4().hex.encode()
        self.s = {}
        for ch, typ in (("shell", zmq.DEALER), ("control", zmq.DEALER), ("stdin", zmq.DEALER),
                        ("iopub", zmq.SUB), ("hb", zmq.REQ)):
            k = self.ctx.socket(typ)
            k.linger = 0
            k.setsockopt(zmq.RECONNECT_IVL, 5)
            k.setsockopt(zmq.RCVHWM, 0)
            if typ == zmq.DEALER:
                k.setsockopt(zmq.IDENTITY, ident)
            if typ == zmq.SUB:
                k.setsockopt(zmq.SUBSCRIBE, b"")
            k.connect("%s://%s%s%d" % (i["transport"], i["ip"],
                                       "-" if i["transport"] == "ipc" else ":", i[ch + "_port"]))
            self.s[ch] = k
        self.poller = zmq.Poller()
        for ch in ("shell", "control", "stdin", "iopub"):
            self.poller.register(self.s[ch], zmq.POLLIN)

    def wait_ready(self, t0):
        ready = iopub = None
        welcome = starting = False
        end = time.time() + self.timeout
        mids, nxt = set(), 0
        while time.time() < end:
            if time.time() >= nxt and ready is None and not mids:
                mids.add(self.send("shell", "kernel_info_request", {}))
                nxt = time.time() + 0.5
            elif time.time() >= nxt and iopub is None:
                mids.add(self.send("shell", "kernel_info_request", {}))
                nxt = time.time() + 0.2
            for ch, m in self.recv(50):
                t = m["header"]["msg_type"]
                if t == "kernel_info_reply" and ready is None:
                    ready = time.perf_counter() - t0
                    nxt = 0
                if ch == "iopub":
                    if t == "iopub_welcome":
                        welcome = True
                    if t == "status" and m["content"].get("execution_state") == "starting":
                        starting = True
                    if iopub is None:
                        iopub = time.perf_counter() - t0
            if ready is not None and iopub is not None:
                self.drain(0.3)
                return round(ready, 4), round(iopub, 4), welcome, starting
            if not self.alive():
                raise Dead("kernel died while starting")
        raise Dead("kernel not ready in time (info=%s iopub=%s)" % (ready, iopub))

    def alive(self):
        return bool(self.km and self.km.is_alive())

    def pid(self):
        p = getattr(self.km, "provisioner", None)
        return getattr(p, "pid", None) or getattr(getattr(self.km, "kernel", None), "pid", None)

    def stop(self):
        if self.km is not None:
            for k in getattr(self, "s", {}).values():
                k.close(0)
            try:
                self.km.shutdown_kernel(now=True)
            except Exception:  # noqa: BLE001
                pass
            self.ctx.destroy(0)
            self.km = None

    def rss_mb(self):
        total, todo = 0, [self.pid()]
        while todo:
            p = todo.pop()
            try:
                with open("/proc/%d/status" % p) as f:
                    for line in f:
                        if line.startswith("VmRSS:"):
                            total += int(line.split()[1])
                for tid in os.listdir("/proc/%d/task" % p):
                    with open("/proc/%d/task/%s/children" % (p, tid)) as f:
                        todo += [int(x) for x in f.read().split()]
            except (OSError, TypeError):
                pass
        return round(total / 1024, 1)

    # -- messages
    def send(self, ch, mtype, content):
        m = self.session.msg(mtype, content)
        self.session.send(self.s[ch], m)
        return m["header"]["msg_id"]

    def recv(self, ms):
        out = []
        for sock, _ in self.poller.poll(ms):
            ch = next(c for c, k in self.s.items() if k is sock)
            frames = sock.recv_multipart()
            try:
                _, parts = self.session.feed_identities(frames)
                m = self.session.deserialize(parts)
            except Exception as e:  # noqa: BLE001
                self.schema_bad.setdefault("undecodable", []).append("%s: %s" % (ch, e))
                continue
            m["_t"] = time.perf_counter()
            m["_ch"] = ch
            if validate_message is not None:
                try:
                    validate_message({k: m[k] for k in ("header", "parent_header", "metadata", "content", "buffers")})
                    self.schema_ok += 1
                except KeyError:
                    self.schema_bad.setdefault(m["header"].get("msg_type", "?"), "no schema for this type")
                except Exception as e:  # noqa: BLE001
                    self.schema_bad.setdefault(m["header"].get("msg_type", "?"), str(e).splitlines()[0][:160])
            out.append((ch, m))
        return out

    def drain(self, secs=0.15):
        got, end = [], time.time() + secs
        while time.time() < end:
            got += self.recv(20)
        return got

    def request(self, mtype, content, reply, ch="shell", timeout=None):
        """Returns (reply or None, seconds, other messages seen)."""
        t0 = time.perf_counter()
        mid = self.send(ch, mtype, content)
        end, other = time.time() + (timeout or self.timeout), []
        while time.time() < end:
            for c, m in self.recv(20):
                # some kernels also publish their shutdown reply on iopub; that copy does not count
                if c != "iopub" and m["header"]["msg_type"] == reply and m["parent_header"].get("msg_id") == mid:
                    m["_on"] = c
                    return m, m["_t"] - t0, other
                other.append(m)
            if not self.alive():
                break
        return None, time.perf_counter() - t0, other

    def execute(self, code, timeout=None, wait=True, answer=None, **kw):
        c = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
             "allow_stdin": answer is not None, "stop_on_error": True}
        c.update(kw)
        r = {"t0": time.perf_counter(), "io": [], "reply": None, "reply_s": None, "idle_s": None,
             "status": None, "asked": []}
        r["mid"] = self.send("shell", "execute_request", c)
        return self.collect(r, timeout, answer) if wait else r

    def collect(self, r, timeout=None, answer=None):
        end = time.time() + (timeout or self.timeout)
        dead_at = None
        while time.time() < end:
            for ch, m in self.recv(5):
                mine = m["parent_header"].get("msg_id") == r["mid"]
                if ch == "stdin" and m["header"]["msg_type"] == "input_request":
                    r["asked"].append(m["content"])
                    if answer is not None:
                        self.session.send(self.s["stdin"], self.session.msg(
                            "input_reply", {"value": answer, "status": "ok"}, parent=m))
                if not mine:
                    if ch == "iopub" and not m["parent_header"]:
                        self.parent_bad += 1
                    continue
                if ch == "shell":
                    r["reply"], r["reply_s"] = m["content"], m["_t"] - r["t0"]
                    r["status"] = m["content"].get("status")
                elif ch == "iopub":
                    r["io"].append(m)
                    if m["header"]["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                        r["idle_s"] = m["_t"] - r["t0"]
            if r["reply"] is not None and r["idle_s"] is not None:
                return r
            if not self.alive():
                dead_at = dead_at or time.time()
                if time.time() - dead_at > 0.5:
                    r["status"] = r["status"] or "kernel died"
                    return r
        r["status"] = r["status"] or "timeout"
        return r

    def heartbeat_ms(self, timeout=3000):
        t0 = time.perf_counter()
        k = self.s["hb"]
        try:
            k.send(b"ping")
            if k.poll(timeout) and k.recv() == b"ping":
                return round((time.perf_counter() - t0) * 1e3, 3)
        except zmq.ZMQError:
            pass
        return None


# ---------------------------------------------------------------- helpers ---
def outs(r, *types):
    return [m for m in r["io"] if m["header"]["msg_type"] in types]


def text(r, stream=None):
    return "".join(m["content"]["text"] for m in outs(r, "stream")
                   if stream is None or m["content"]["name"] == stream)


def result(r):
    for m in outs(r, "execute_result"):
        return m["content"]["data"].get("text/plain")
    return None


def err(r):
    for m in outs(r, "error"):
        c = m["content"]
        return {"ename": c.get("ename"), "evalue": str(c.get("evalue"))[:300],
                "traceback_lines": len(c.get("traceback") or [])}
    if r["reply"] and r["reply"].get("status") == "error":
        return {"ename": r["reply"].get("ename"), "evalue": str(r["reply"].get("evalue"))[:300],
                "only_in_reply": True}
    return None


def med(xs, scale=1e3, nd=3):
    xs = sorted(xs)
    if not xs:
        return None
    return {"median": round(statistics.median(xs) * scale, nd), "min": round(xs[0] * scale, nd),
            "p95": round(xs[min(len(xs) - 1, int(len(xs) * .95))] * scale, nd), "n": len(xs)}


def brief(r):
    d = {"status": r["status"]}
    if r["reply_s"]:
        d["reply_ms"] = round(r["reply_s"] * 1e3, 1)
    e = err(r)
    if e:
        d["error"] = e
    if text(r):
        d["stream"] = text(r)[:200]
    if result(r) is not None:
        d["result"] = result(r)[:200]
    if r["status"] == "ok" and r["idle_s"] is None:
        d["idle_missing"] = True
    return d


# ----------------------------------------------------------------- groups ---
def g_start(p, S, a):
    d, runs = {}, []
    for _ in range(3):
        runs.append(p.start())
        t = p.execute(S["setup"])
        runs[-1]["first_execute_ms"] = round((t["idle_s"] or t["reply_s"] or -.001) * 1e3, 1)
        runs[-1]["first_execute_status"] = t["status"]
    d["runs"] = runs
    d["start_to_kernel_info_s"] = statistics.median(x["start_to_kernel_info_s"] for x in runs)
    d["first_execute_ms"] = statistics.median(x["first_execute_ms"] for x in runs)
    d["rss_mb_after_first_execute"] = p.rss_mb()
    return d


def g_info(p, S, a):
    m, s, _ = p.request("kernel_info_request", {}, "kernel_info_reply")
    c = m["content"] if m else None
    ctl, cs, _ = p.request("kernel_info_request", {}, "kernel_info_reply", ch="control", timeout=3)
    return {"reply": c, "shell_ms": round(s * 1e3, 2),
            "on_control_channel": bool(ctl) and ctl["_on"] == "control",
            "on_control_ms": round(cs * 1e3, 2) if ctl else None,
            "heartbeat_ms": p.heartbeat_ms()}


def g_execute(p, S, a):
    p.execute(S["one"])
    rep, idle = [], []
    r = None
    for _ in range(a.reps):
        r = p.execute(S["one"])
        if r["status"] != "ok":
            break
        rep.append(r["reply_s"])
        if r["idle_s"]:
            idle.append(r["idle_s"])
    d = {"one_plus_one_reply_ms": med(rep), "one_plus_one_idle_ms": med(idle),
         "one_plus_one_shows": result(r) or text(r),
         "msg_sequence": [m["header"]["msg_type"] + (":" + m["content"]["execution_state"]
                          if m["header"]["msg_type"] == "status" else "") for m in r["io"]],
         "execution_count_in_reply": "execution_count" in (r["reply"] or {})}
    var = [p.execute(S["vary"] % (1000 + i)) for i in range(min(a.reps, 20))]
    d["distinct_cells_reply_ms"] = med([x["reply_s"] for x in var if x["status"] == "ok"])
    p.execute(S["set"])
    g = p.execute(S["get"])
    d["state_across_cells"] = S["expect_get"] in ((result(g) or "") + text(g))
    q = p.execute(S["one"], silent=True, store_history=False)
    d["silent_is_silent"] = not outs(q, "execute_result", "stream", "execute_input")
    u = p.execute(S["one"], user_expressions={"v": "1+1"})
    d["user_expressions"] = (u["reply"] or {}).get("user_expressions")
    rss0, t0 = p.rss_mb(), time.time()
    n = 0
    while n < 6 * a.reps and time.time() - t0 < 60:
        p.execute(S["one"])
        n += 1
    d["rss_growth_mb_per_1000_cells"] = round((p.rss_mb() - rss0) / max(n, 1) * 1000, 2)
    for key in ("redecl_var", "redecl_func", "redecl_type", "redecl_import", "use_before_decl"):
        rs = [p.execute(x) for x in S[key]]
        d[key] = {"statuses": [x["status"] for x in rs], "last": brief(rs[-1])}
    t = p.execute(S["cpu_1e7"], timeout=120)
    d["cpu_1e7_adds_ms"] = round(t["reply_s"] * 1e3, 1) if t["reply_s"] else t["status"]
    d["help"] = brief(p.execute(S["help"]))
    d["shell"] = brief(p.execute(S["shell"]))
    return d


def g_errors(p, S, a):
    d = {}
    for key in ("compile_error", "syntax_error", "runtime_error", "explicit_panic"):
        d[key] = brief(p.execute(S[key]))
        if not p.alive():
            p.start()
            p.execute(S["setup"])
    # a failing cell must abort the cells queued behind it
    rs = [p.execute(c, wait=False) for c in (S["compile_error"], S["set"], S["one"])]
    end, reps = time.time() + 10, {}
    while time.time() < end and len(reps) < 3:
        for ch, m in p.recv(50):
            if ch == "shell" and m["parent_header"].get("msg_id") in [x["mid"] for x in rs]:
                reps[m["parent_header"]["msg_id"]] = m["content"].get("status")
    d["queue_after_error"] = [reps.get(x["mid"]) for x in rs]
    p.drain(0.3)
    return d


def g_stream(p, S, a):
    d = {}
    r = p.execute(S["stream"])
    ms = [m for m in outs(r, "stream")]
    d["stream_messages"] = len(ms)
    d["text_ok"] = text(r) == "".join("tick %d\n" % i for i in range(5))
    if ms:
        d["first_chunk_ms"] = round((ms[0]["_t"] - r["t0"]) * 1e3, 1)
        d["last_chunk_ms"] = round((ms[-1]["_t"] - r["t0"]) * 1e3, 1)
    d["live"] = len(ms) >= 4
    r = p.execute(S["interleave"])
    seq = "".join(m["content"]["name"][3] for m in outs(r, "stream"))
    lines = [ln for m in outs(r, "stream") for ln in m["content"]["text"].splitlines()]
    want = [x for i in range(20) for x in ("o %d" % i, "e %d" % i)]
    d["stdout_stderr_exact_order"] = lines == want
    d["stdout_stderr_complete"] = sorted(lines) == sorted(want)
    d["stdout_stderr_messages"] = len(seq)
    idx = [i for i, m in enumerate(r["io"]) if m["header"]["msg_type"] == "stream"]
    idle = [i for i, m in enumerate(r["io"]) if m["header"]["msg_type"] == "status"
            and m["content"]["execution_state"] == "idle"]
    d["output_before_idle"] = bool(idx and idle and max(idx) < min(idle)) and not [
        m for _, m in p.drain(0.3) if m["header"]["msg_type"] == "stream"]
    r = p.execute(S["flood"], timeout=120)
    got = text(r).count("\n")
    d["flood_100k_lines"] = {"lines": got, "messages": len(outs(r, "stream")), "status": r["status"],
                             "s": round(r["idle_s"] or -1, 3)}
    p.drain(0.3)
    r = p.execute(S["late_output"])
    late = [m for _, m in p.drain(1.5) if m["header"]["msg_type"] == "stream"]
    d["late_output"] = {"in_cell": text(r), "after": "".join(m["content"]["text"] for m in late),
                        "parent_is_cell": [m["parent_header"].get("msg_id") == r["mid"] for m in late]}
    d["builtin_println"] = brief(p.execute(S["builtin_println"]))
    d["log"] = brief(p.execute(S["log"]))
    d["unicode_print"] = text(p.execute(S["unicode_print"]))
    v = p.execute(S["unicode_value"])
    d["unicode_value"] = result(v) or text(v)
    return d


def g_display(p, S, a):
    d = {}
    if "display_setup" in S:
        p.execute(S["display_setup"], timeout=120)
    for key in ("display_1mb", "display_svg_1mb"):
        ts, size = [], 0
        for i in range(21 if a.reps >= 50 else 10):
            r = p.execute(S[key], timeout=180)
            dd = outs(r, "display_data", "execute_result", "update_display_data")
            if r["status"] == "ok" and not dd:  # rich output that arrives only after idle is a bug of its own
                late = [m for _, m in p.drain(1.0) if m["header"]["msg_type"] == "display_data"
                        and m["parent_header"].get("msg_id") == r["mid"]]
                if late:
                    d["display_after_idle"] = d.get("display_after_idle", 0) + 1
                    continue
            if r["status"] != "ok" or not dd:
                d[key] = brief(r)
                break
            size = max(len(str(v)) for m in dd for v in m["content"]["data"].values())
            if i:
                ts.append(r["idle_s"] or r["reply_s"])
        if ts:
            d[key + "_ms"] = med(ts)
            d[key] = {"payload_bytes": size, "mb_per_s": round(size / MB / statistics.median(ts), 1),
                      "messages": [m["header"]["msg_type"] for m in dd], "mime": sorted({k for m in dd for k in m["content"]["data"]})}
    for key in ("display_svg_last", "display_then_result"):
        r = p.execute(S[key], timeout=120)
        d[key] = {"status": r["status"], "out": [[m["header"]["msg_type"], sorted(m["content"].get("data", {}))]
                  for m in outs(r, "display_data", "execute_result", "stream")], "error": err(r)}
    return d


def g_interrupt(p, S, a):
    d = {"mode": p.km.kernel_spec.interrupt_mode}
    for key in ("loop_sleep", "loop_empty", "loop_work", "block_chan", "loop_print"):
        if not p.alive():
            p.start()
            p.execute(S["setup"])
        p.execute(S["set"])
        r = p.execute(S[key], wait=False)
        time.sleep(2.5 if "gonb" in p.name else 1.0)
        hb = p.heartbeat_ms(1500)
        m, s, _ = p.request("kernel_info_request", {}, "kernel_info_reply", ch="control", timeout=1.5)
        t0 = time.perf_counter()
        r2 = None
        if d["mode"] == "message":
            r2 = p.send("control", "interrupt_request", {})
        else:
            p.km.interrupt_kernel()
        p.collect(r, timeout=10)
        x = {"status": r["status"], "heartbeat_while_busy_ms": hb,
             "control_answers_while_busy_ms": round(s * 1e3, 2) if m else None,
             "back_ms": round((time.perf_counter() - t0) * 1e3, 1), "alive": p.alive(), "error": err(r)}
        if r2:
            x["sent"] = "interrupt_request"
        if p.alive():
            g = p.execute(S["get"], timeout=10)
            x["state_kept"] = S["expect_get"] in ((result(g) or "") + text(g))
            x["next_cell"] = g["status"]
            if g["status"] == "timeout":
                p.start()
                p.execute(S["setup"])
            else:
                c0 = cpu(p)
                time.sleep(0.5)
                x["cpu_pct_after"] = round((cpu(p) - c0) / 0.5 * 100)
        d[key] = x
        p.start()
        p.execute(S["setup"])
    # interrupting an idle kernel must do no harm
    if d["mode"] == "message":
        p.request("interrupt_request", {}, "interrupt_reply", ch="control", timeout=3)
    else:
        p.km.interrupt_kernel()
    time.sleep(0.5)
    d["idle_interrupt_survived"] = p.alive() and p.execute(S["one"], timeout=10)["status"] == "ok"
    return d


def cpu(p):
    tot, todo = 0, [p.pid()]
    while todo:
        q = todo.pop()
        try:
            with open("/proc/%d/stat" % q) as f:
                v = f.read().rsplit(")", 1)[1].split()
            tot += int(v[11]) + int(v[12])
            for tid in os.listdir("/proc/%d/task" % q):
                with open("/proc/%d/task/%s/children" % (q, tid)) as f:
                    todo += [int(x) for x in f.read().split()]
        except (OSError, TypeError, IndexError):
            pass
    return tot / os.sysconf("SC_CLK_TCK")


def g_crash(p, S, a):
    d = {}
    for key in ("nil_deref", "goroutine_panic", "stack_overflow", "exit"):
        if not p.alive():
            p.start()
            p.execute(S["setup"])
        p.execute(S["set"])
        r = p.execute(S[key], timeout=25)
        time.sleep(0.3)
        x = brief(r)
        x["alive"] = p.alive()
        if p.alive():
            g = p.execute(S["get"], timeout=15)
            x["state_kept"] = S["expect_get"] in ((result(g) or "") + text(g))
            if g["status"] == "timeout":
                x["stuck"] = True
        d[key] = x
        p.start()
        p.execute(S["setup"])
    return d


def g_introspect(p, S, a):
    d = {}
    p.execute(S["set"])
    for key in ("complete", "complete_local", "complete_unicode"):
        code, want = S[key]
        m, s, _ = p.request("complete_request", {"code": code, "cursor_pos": len(code)}, "complete_reply", timeout=15)
        c = m["content"] if m else {}
        sub = code[c.get("cursor_start", 0):c.get("cursor_end", 0)] if m else None
        d[key] = {"ms": round(s * 1e3, 1), "status": c.get("status"), "found": want in c.get("matches", []),
                  "matches": len(c.get("matches", [])), "first": c.get("matches", [])[:3],
                  "replaces": sub, "typed_metadata": "_jupyter_types_experimental" in c.get("metadata", {})}
    code, pos = S["inspect"]
    m, s, _ = p.request("inspect_request", {"code": code, "cursor_pos": pos, "detail_level": 0},
                        "inspect_reply", timeout=15)
    c = m["content"] if m else {}
    d["inspect"] = {"ms": round(s * 1e3, 1), "answered": bool(m), "status": c.get("status"), "found": c.get("found"),
                    "mime": sorted(c.get("data", {})), "head": str(c.get("data", {}).get("text/plain", ""))[:120]}
    d["is_complete"] = {}
    for want, code in S["is_complete"].items():
        m, s, _ = p.request("is_complete_request", {"code": code}, "is_complete_reply", timeout=3)
        d["is_complete"][want] = m["content"] if m else "no answer"
    m, s, _ = p.request("history_request", {"output": False, "raw": True, "hist_access_type": "tail", "n": 5},
                        "history_reply", timeout=3)
    d["history"] = len(m["content"].get("history", [])) if m else "no answer"
    return d


def g_comm(p, S, a):
    d = {}
    m, s, _ = p.request("comm_info_request", {}, "comm_info_reply", timeout=3)
    d["comm_info"] = m["content"] if m else "no answer"
    cid = uuid.uuid4().hex
    p.send("shell", "comm_open", {"comm_id": cid, "target_name": "probe.unknown.target", "data": {}})
    seen = [x for _, x in p.drain(1.5)]
    d["unknown_target_closed"] = any(x["header"]["msg_type"] == "comm_close" and
                                     x["content"].get("comm_id") == cid for x in seen)
    d["survived"] = p.alive() and p.execute(S["one"], timeout=15)["status"] == "ok"
    m, s, _ = p.request("probe_nonsense_request", {}, "probe_nonsense_reply", timeout=1)
    d["unknown_message_survived"] = p.alive() and p.execute(S["one"], timeout=15)["status"] == "ok"
    # a message signed with a wrong key must be dropped, not be fatal
    good = p.session.key
    p.session.key = b"wrong"
    p.send("shell", "kernel_info_request", {})
    p.session.key = good
    time.sleep(0.5)
    d["bad_signature_survived"] = p.alive() and p.execute(S["one"], timeout=15)["status"] == "ok"
    if not p.alive() or not d["bad_signature_survived"]:
        p.start()
        p.execute(S["setup"])
    return d


def g_stdin(p, S, a):
    r = p.execute(S["stdin"], timeout=8, answer="Ada")
    d = brief(r)
    d["input_requests"] = r["asked"][:3]
    d["got"] = "got Ada" in text(r)
    if r["status"] in ("timeout", "kernel died"):
        p.start()
        p.execute(S["setup"])
    r = p.execute(S["stdin"], timeout=5)
    d["allow_stdin_false"] = brief(r)
    if r["status"] in ("timeout", "kernel died"):
        p.start()
        p.execute(S["setup"])
    return d


def g_control(p, S, a):
    """Is the control channel served while a cell runs on shell?"""
    r = p.execute(S["sleep2"], wait=False)
    time.sleep(0.3)
    m, s, _ = p.request("kernel_info_request", {}, "kernel_info_reply", ch="control", timeout=1.2)
    d = {"kernel_info_while_busy_ms": round(s * 1e3, 2) if m else None,
         "heartbeat_while_busy_ms": p.heartbeat_ms(1000)}
    p.collect(r, timeout=15)
    p.drain(0.3)
    # a second client sees the same iopub traffic
    old = p.s
    p2 = Probe(p.name, p.log, p.timeout)
    p2.km = p.km
    p2.connect()
    try:
        ok = False
        for _ in range(10):
            p2.send("shell", "kernel_info_request", {})
            if any(ch == "iopub" for ch, _ in p2.drain(0.3)):
                ok = True
                break
        r = p.execute(S["one"])
        seen = [m for ch, m in p2.drain(0.5) if ch == "iopub" and m["parent_header"].get("msg_id") == r["mid"]]
        d["second_client_sees_iopub"] = ok and bool(seen)
        d["second_client_can_execute"] = p2.execute(S["one"], timeout=15)["status"] == "ok"
    finally:
        for k in p2.s.values():
            k.close(0)
        p2.ctx.destroy(0)
        p2.km = None
    assert p.s is old
    return d


def g_shutdown(p, S, a):
    d = {}
    for restart in (False, True):
        if not p.alive():
            p.start()
        pid = p.pid()
        t0 = time.perf_counter()
        m, s, oth = p.request("shutdown_request", {"restart": restart}, "shutdown_reply", ch="control", timeout=5)
        for _ in range(500):
            if not p.alive():
                break
            time.sleep(0.01)
        d["restart" if restart else "shutdown"] = {
            "reply": m["content"] if m else None, "reply_channel": m["_on"] if m else None,
            "exit_s": round(time.perf_counter() - t0, 3) if not p.alive() else None, "still_alive": p.alive(),
            "pid_gone": not os.path.exists("/proc/%d" % pid) if pid else None}
        p.stop()
        p.start()
    # shutdown while busy
    p.execute(S["setup"])
    p.execute(S["loop_sleep"], wait=False)
    time.sleep(2.5 if "gonb" in p.name else 1)
    t0 = time.perf_counter()
    p.send("control", "shutdown_request", {"restart": False})
    for _ in range(500):
        if not p.alive():
            break
        time.sleep(0.01)
    d["while_busy_exit_s"] = round(time.perf_counter() - t0, 3) if not p.alive() else None
    p.start()
    t0 = time.perf_counter()
    os.kill(p.pid(), signal.SIGTERM)
    for _ in range(300):
        if not p.alive():
            break
        time.sleep(0.01)
    d["sigterm_exit_s"] = round(time.perf_counter() - t0, 3) if not p.alive() else None
    p.start()
    p.execute(S["setup"])
    return d


def g_endurance(p, S, a):
    """Many cells: does a cell stay as quick, and how much memory stays?"""
    p.start()
    p.execute(S["setup"])
    for _ in range(200):
        p.execute(S["one"])
    rss0, n, t0 = p.rss_mb(), 0, time.time()
    while n < a.cells and time.time() - t0 < 120:
        p.execute(S["vary"] % n if n % 2 else S["set"])
        n += 1
    d = {"cells": n, "rss_mb": p.rss_mb(), "rss_growth_mb_per_1000_cells": round((p.rss_mb() - rss0) / max(n, 1) * 1000, 2)}
    d["one_plus_one_reply_ms"] = med([p.execute(S["one"])["reply_s"] for _ in range(a.reps)])
    # Completion while a cell runs.
    r = p.execute(S["sleep2"], wait=False)
    time.sleep(0.3)
    ts, (code, _) = [], S["complete"]
    for _ in range(10):
        m, sec, _ = p.request("complete_request", {"code": code, "cursor_pos": len(code)}, "complete_reply", timeout=3)
        if m:
            ts.append(sec)
    d["completion_while_busy_ms"] = med(ts) if ts else "no answer"
    p.collect(r, timeout=10)
    return d


GROUPS = [("start", g_start), ("info", g_info), ("execute", g_execute), ("errors", g_errors),
          ("stream", g_stream), ("display", g_display), ("introspect", g_introspect), ("comm", g_comm),
          ("stdin", g_stdin), ("control", g_control), ("interrupt", g_interrupt), ("crash", g_crash),
          ("endurance", g_endurance), ("shutdown", g_shutdown)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("kernel")
    ap.add_argument("--profile")
    ap.add_argument("--only", default="")
    ap.add_argument("--skip", default="")
    ap.add_argument("--reps", type=int, default=50)
    ap.add_argument("--cells", type=int, default=5000)
    ap.add_argument("--timeout", type=float, default=60)
    ap.add_argument("--log", default=os.devnull)
    a = ap.parse_args()
    spec = KernelSpecManager().get_kernel_spec(a.kernel)
    prof = a.profile or ("gonb" if "gonb" in a.kernel else
                         {"python": "python", "go": "go"}.get(spec.language.lower(), "go"))
    if prof in PROFILES:
        S = PROFILES[prof]
    else:
        with open(prof) as f:
            over = json.load(f)
        S = dict(PROFILES[over.pop("base", "go")], **over)
    log = open(a.log, "ab")
    p = Probe(a.kernel, log, a.timeout)
    only = [x for x in a.only.split(",") if x]
    skip = [x for x in a.skip.split(",") if x]
    out = {"kernel": a.kernel, "profile": prof, "display_name": spec.display_name, "language": spec.language,
           "interrupt_mode": spec.interrupt_mode, "loadavg": os.getloadavg(), "cpus": os.cpu_count()}
    try:
        v = subprocess.run([sys.executable, "-c", "import zmq,jupyter_client as j;print(j.__version__,zmq.zmq_version())"],
                           capture_output=True, text=True).stdout.split()
        out["client"] = {"jupyter_client": v[0], "libzmq": v[1]}
    except Exception:  # noqa: BLE001
        pass
    try:
        for name, fn in GROUPS:
            if (only and name not in only) or name in skip:
                continue
            try:
                if not p.alive():
                    p.start()
                    p.execute(S["setup"])
                t0 = time.time()
                out[name] = fn(p, S, a)
                out[name]["_took_s"] = round(time.time() - t0, 1)
                print("%-11s done in %.1f s" % (name, time.time() - t0), file=sys.stderr)
            except Exception as e:  # noqa: BLE001
                out[name] = {"probe_failed": "%s: %s" % (type(e).__name__, e)}
                print("%-11s FAILED: %s" % (name, e), file=sys.stderr)
                p.stop()
        out["schema"] = {"checked": validate_message is not None, "ok": p.schema_ok, "bad": p.schema_bad,
                         "iopub_without_parent": p.parent_bad}
    finally:
        p.stop()
        log.close()
    json.dump(out, sys.stdout, indent=1, ensure_ascii=False, default=str)
    print()


if __name__ == "__main__":
    main()
