"""Go cells in `tilus-lab kernel`, through jupyter_client."""
import glob
import os
import signal
import time
from jupyter_client.manager import start_new_kernel

t0 = time.time()
km, kc = start_new_kernel(kernel_name="tilus-lab")
print(f"ready after {time.time() - t0:.3f} s")
T = 120


def eq(got, want, what):
    assert got == want, f"{what}: got {got!r:.600}, want {want!r:.600}"


def wait(mid, timeout=T):
    """The reply of a cell and its outputs up to idle."""
    end, out, reply, idle = time.time() + timeout, [], None, False
    while reply is None:
        m = kc.get_shell_msg(timeout=max(0.01, end - time.time()))
        if m["parent_header"].get("msg_id") == mid:
            reply = m["content"]
    while not idle:
        m = kc.get_iopub_msg(timeout=max(0.01, end - time.time()))
        if m["parent_header"].get("msg_id") != mid:
            continue
        out.append((m["msg_type"], m["content"]))
        idle = m["content"].get("execution_state") == "idle"
    return reply, out


def begin(code, c=None, **kw):
    """Sends a cell and returns when the kernel has taken it up: what follows on another channel is after it."""
    c = c or kc
    mid, end = c.execute(code, **kw), time.time() + T
    while (m := c.get_iopub_msg(timeout=max(0.01, end - time.time())))["parent_header"].get("msg_id") != mid or m["msg_type"] != "execute_input":
        pass
    return mid


def until(what, found):
    """Waits for what a loaded machine may take seconds for, and returns it."""
    end = time.time() + T
    while not (v := found()):
        assert time.time() < end, f"no {what} after {T} s"
        time.sleep(0.02)
    return v


def run(code, **kw):
    return wait(kc.execute(code, **kw))


def ok(code, **kw):
    r, out = run(code, **kw)
    eq(r["status"], "ok", f"{code}: {r.get('ename')}: {r.get('evalue')}")
    return out


def text(out, name="stdout"):
    return "".join(c["text"] for t, c in out if t == "stream" and c["name"] == name)


def result(out):
    return next((c["data"]["text/plain"] for t, c in out if t == "execute_result"), None)


def proc(path):
    """What a file of /proc says; nothing where the process or thread has just ended."""
    try:
        return open(f"/proc/{path}").read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid):
    return [c for t in glob.glob(f"/proc/{pid}/task/*") for c in proc(t.removeprefix("/proc/") + "/children").split()]


def workers():
    return children(km.provisioner.process.pid)


def interrupt():
    kc.control_channel.send(kc.session.msg("interrupt_request", {}))


# State, order, values.
ok('import (\n"fmt"\n"os"\n"time"\n)\nx := 41')
eq(result(ok("x + 1")), "42", "state")
out = ok('for i := 0; i < 20; i++ {\n fmt.Fprintln(os.Stdout, "o", i)\n fmt.Fprintln(os.Stderr, "e", i)\n}')
eq("".join(c["text"] for t, c in out if t == "stream"), "".join(f"o {i}\ne {i}\n" for i in range(20)), "order of stdout and stderr")
eq(text(ok('fmt.Println("héllo 世界 🙂")')), "héllo 世界 🙂\n", "unicode")

# Errors have a place and leave the state alone.
r, out = run("y := 1\nundefinedName + 1")
eq(r["status"], "error", "compile error")
assert "undefinedName" in r["evalue"] + "".join(r["traceback"]), r
assert any(t == "error" for t, _ in out) and not any(t == "stream" for t, _ in out), out
r, out = run("var a []int\na[5]")
eq(r["status"], "error", "run-time error")
eq(result(ok("x")), "41", "after errors")

# Completion counts code points.
mid = kc.complete('s := "🙂"; fmt.Sprintl', 21)
while (m := kc.get_shell_msg(timeout=T))["parent_header"].get("msg_id") != mid:
    pass
c = m["content"]
eq((c["matches"], c["cursor_start"], c["cursor_end"]), (["Sprintln"], 14, 21), "completion after an emoji")

# Interrupts are quick and keep values.
ok("%%tile spin\nprogram spin<1>(a: *f32) warps=1 {\n ga = ViewGlobal(a) : global f32[32]\n row = 0\n while row < 1 {\n"
   "  ra = LoadGlobal(ga, offset=[0]) : register f32[32] spatial(32)\n  StoreGlobal(ga, ra, offset=[0])\n  row = 0\n }\n}\n")
for code in ("for {\n}", "n := 0\nfor {\n n++\n}", "<-make(chan int)", "for {\n time.Sleep(10 * time.Millisecond)\n}", 'for {\n fmt.Println("spam")\n}',
             "time.Sleep(time.Minute)", "select {}", 'lab.RunOn("interp", spin, "ones:f32[32]")', 'lab.RunOn("sim", spin, "ones:f32[32]")'):
    mid = begin(code)
    time.sleep(0.3)
    t = time.time()
    interrupt()
    r, _ = wait(mid)
    took = time.time() - t
    eq(r["status"], "error", code)
    assert took < 1, f"interrupt of {code!r} took {took:.3f} s"
    print(f"interrupt of {code.split(chr(10))[0]:36} {took * 1e3:.0f} ms")
    eq(result(ok("x")), "41", "state after an interrupt")

# Input.
mid = kc.execute("%%once\nvar name string\nfmt.Scanln(&name)\nname", allow_stdin=True)
kc.get_stdin_msg(timeout=T)
kc.input("Ada")
eq(result(wait(mid)[1]), "Ada", "input")

# What kills a worker costs one cell; replay brings the values back.
ok("z := 7")
for code in ('func boom() { panic("boom") }\ngo boom()\ntime.Sleep(time.Second)', "func rec(n int) int { return rec(n+1) + 1 }\nrec(0)"):
    r, out = run(code)
    eq(r["status"], "error", code)
    assert any(t == "error" for t, _ in out), out
    assert any("%replay" in line for line in r["traceback"]), r
    print(f"{code.splitlines()[0]:.40}: {r['ename']}: {r['evalue']:.80}")
mid = kc.execute('import (\n"fmt"\n"time"\n)\nfmt.Println("asleep")\ntime.Sleep(20 * time.Second)')
while (m := kc.get_iopub_msg(timeout=T))["parent_header"].get("msg_id") != mid or m["msg_type"] != "stream":
    pass
t = time.time()
for c in workers():
    os.kill(int(c), signal.SIGKILL)
r, _ = wait(mid)
eq(r["status"], "error", "SIGKILL")
assert time.time() - t < 4, f"the death was noticed after {time.time() - t:.3f} s"
assert any("%replay" in line for line in r["traceback"]), r
eq(run("z")[0]["status"], "error", "values after a death")
eq(run("%replay")[0]["status"], "ok", "replay")
eq(result(ok("z")), "7", "values after a replay")
r, _ = run("os.Exit(3)")
eq(r["status"], "error", "os.Exit")
eq(result(ok("1 + 1")), "2", "after deaths")

# Round trips.
times = []
for _ in range(50):
    t = time.perf_counter()
    mid = kc.execute("1 + 1")
    while kc.get_shell_msg(timeout=T)["parent_header"].get("msg_id") != mid:
        pass
    times.append(time.perf_counter() - t)
print(f"1 + 1: median {sorted(times)[25] * 1e3:.1f} ms")

# A question about code, an expression beside a cell, and what is not counted, as the protocol has them.
def ask(msg_type, content, channel="shell"):
    msg = kc.session.msg(msg_type, content)
    getattr(kc, f"{channel}_channel").send(msg)
    while (m := getattr(kc, f"get_{channel}_msg")(timeout=T))["parent_header"].get("msg_id") != msg["header"]["msg_id"]:
        pass
    return m["content"]


eq(ask("is_complete_request", {"code": "for i := range 3 {\n\tif i > 1 {"}), {"status": "incomplete", "indent": "\t\t"}, "indent")
r, _ = run("1", user_expressions={"v": "x + 1", "bad": "nowhere"})
eq((r["user_expressions"]["v"]["data"]["text/plain"], r["user_expressions"]["bad"]["status"]), ("42", "error"), "user_expressions")
n = r["execution_count"]
eq([t for t, _ in run("fmt.Println(1)", silent=True)[1]], ["status", "status"], "silent")
eq(run("x", store_history=False)[0]["execution_count"], n, "store_history=False")
eq([h[1:] for h in ask("history_request", {"hist_access_type": "tail", "n": 1, "output": True, "raw": True})["history"]], [[n, ["1", "1"]]], "tail")
eq(ask("kernel_info_request", {}, "control")["supported_features"], ["debugger", "kernel subshells"], "supported_features")
r, _ = run("%%once\nvar typed string\nfmt.Scanln(&typed)", allow_stdin=False)
ids = [kc.execute(c) for c in ('time.Sleep(2 * time.Second)\npanic("when the next cell waits")', "x = 99")]
eq([wait(i)[0]["status"] for i in ids], ["error", "error"], "abort of what waits")
eq(result(ok("x")), "41", "an aborted cell ran")
huge = kc.session.msg("execute_request", {"code": "/*" + "x" * (20 << 20) + "*/ 5", "silent": False})
kc.shell_channel.send(huge)
print("a cell of 20 MB:", wait(huge["header"]["msg_id"])[0].get("evalue", "ok"))
ask_nothing = kc.session.msg("no_such_request", {})
kc.shell_channel.send(ask_nothing)
eq(result(ok("x")), "41", "after a request of no known type")


def gone(pids, limit, what):
    end = time.time() + limit
    for c in pids:
        while (s := proc(f"{c}/stat")) and s.split(") ")[1][0] != "Z":
            assert time.time() < end, f"{what}: worker {c} outlived its kernel"
            time.sleep(0.01)


# A kernel that is killed takes its worker with it, also when a cell or a command of it runs; so does one asked to restart.
for what, code in (("kill -9", "for {\n}"), ("kill -9", "!sleep 77"), ("restart", "for {\n}")):
    km2, kc2 = start_new_kernel(kernel_name="tilus-lab")
    begin(code, kc2)
    pid = km2.provisioner.process.pid
    family = until("worker", lambda: children(pid))
    if code.startswith("!"):
        family += until("command of the worker", lambda: [c for w in family for c in children(w)])
    t = time.time()
    if what == "restart":
        kc2.control_channel.send(kc2.session.msg("shutdown_request", {"restart": True}))
        m = kc2.get_control_msg(timeout=T)
        eq(m["content"], {"status": "ok", "restart": True}, "shutdown_reply")
    else:
        os.kill(pid, signal.SIGKILL)
    while km2.provisioner.process.poll() is None:
        assert time.time() - t < 2, "still there"
        time.sleep(0.01)
    gone(family, 1, what)
    print(f"{what} during {code.split()[0]}: {len(family)} processes gone after {time.time() - t:.3f} s")
    kc2.stop_channels()

# Shutdown while a cell runs leaves nobody behind.
begin("for {\n}")
family = workers()
t = time.time()
kc.control_channel.send(kc.session.msg("shutdown_request", {"restart": False}))
while km.provisioner.process.poll() is None:
    assert time.time() - t < 2, "still there"
    time.sleep(0.01)
print(f"shutdown while busy {time.time() - t:.3f} s")
gone(family, 1, "shutdown")
os._exit(0)
