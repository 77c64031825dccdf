"""What jupyter_kernel_test does not ask, against the fake engine of fake_test.go."""
import os
import signal
import time
import zmq
from queue import Empty
from jupyter_client.manager import start_new_kernel

km, kc = start_new_kernel(kernel_name="tilus-lab")
T = 60


def eq(got, want, what):
    assert got == want, f"{what}: got {got!r:.400}, want {want!r:.400}"


def reply(mid, channel="shell", timeout=T):
    end = time.time() + timeout
    while True:
        m = getattr(kc, f"get_{channel}_msg")(timeout=max(0.01, end - time.time()))
        if m["parent_header"].get("msg_id") == mid:
            return m


def iopub(mid, until_idle=True, timeout=T):
    """The iopub messages of a request up to its idle, as (type, content)."""
    out, end = [], time.time() + timeout
    while True:
        m = kc.get_iopub_msg(timeout=max(0.01, end - time.time()))
        if m["parent_header"].get("msg_id") != mid:
            continue
        out.append((m["msg_type"], m["content"]))
        if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
            return out


def run(code, **kw):
    mid = kc.execute(code, **kw)
    r = reply(mid)
    return r["content"], iopub(mid)


def begun(mid):
    """Waits until a cell has been taken up, and for the first text that it prints if it prints; returns that."""
    while True:
        m = kc.get_iopub_msg(timeout=T)
        if m["parent_header"].get("msg_id") == mid and m["msg_type"] in ("execute_input", "stream"):
            return m["content"].get("text", "")


def request(channel, msg_type, content):
    msg = kc.session.msg(msg_type, content)
    getattr(kc, f"{channel}_channel").send(msg)
    return msg["header"]["msg_id"]


def text(out, name="stdout"):
    return "".join(c["text"] for t, c in out if t == "stream" and c["name"] == name)


# Order and parents.
r, out = run("print a\nwarn b\ndisplay c\ncreate d\nupdate e\nvalue 3\nprint f")
eq([t for t, _ in out], ["status", "execute_input", "stream", "stream", "display_data", "display_data", "update_display_data",
                         "execute_result", "stream", "status"], "order")
eq(out[6][1]["transient"], {"display_id": "id1"}, "display id")
eq((r["status"], r["execution_count"]), ("ok", 1), "reply")

# silent shows nothing and does not count; store_history=False does not count.
r, out = run("print a\nvalue 3", silent=True)
eq([t for t, _ in out], ["status", "status"], "silent")
r, out = run("print a", store_history=False)
eq(r["execution_count"], 1, "count without history")
r, out = run("print a", user_expressions={"v": "value 7", "bad": "fail x"})
eq(r["execution_count"], 2, "count")
eq(r["user_expressions"]["v"]["data"], {"text/plain": "7"}, "user expression")
eq(r["user_expressions"]["bad"]["status"], "error", "bad user expression")
assert not any(t in ("error", "execute_result") for t, _ in out), out

# A flood is a few messages; nothing is lost.
r, out = run("flood 100000")
n = sum(t == "stream" for t, _ in out)
assert n < 100, n
eq(text(out), "".join(f"line {i}\n" for i in range(100000)), "flood")
r, out = run("flood 2000000")
assert 10 << 20 <= len(text(out)) < 11 << 20 and "not shown" in text(out, "stderr"), (len(text(out)), text(out, "stderr"))

# Late output names its cell.
mid = kc.execute("late l8")
iopub(mid), reply(mid)
now = kc.execute("print now")
late, idle = None, False
while late is None or not idle:
    m = kc.get_iopub_msg(timeout=T)
    if m["parent_header"]["msg_id"] == mid:
        late = m["content"]
    idle = idle or m["parent_header"]["msg_id"] == now and m["content"].get("execution_state") == "idle"
reply(now)
eq(late, {"name": "stdout", "text": "l8\n"}, "late output")

# An error aborts what is queued behind it, and nothing that comes later.
ids = [kc.execute(c) for c in ("fail slowly", "print never", "print never")]
rs = [reply(i)["content"] for i in ids]
eq([r["status"] for r in rs], ["error"] * 3, "queue after an error")
eq(rs[0]["ename"], "Failed", "ename")
assert isinstance(rs[0]["traceback"], list)
for i in ids:
    eq(text(iopub(i)), "", "aborted cells print")
r, out = run("print again")
eq(text(out), "again\n", "after the abort")
ids = [kc.execute("fail x", stop_on_error=False), kc.execute("print still")]
[reply(i) for i in ids]
iopub(ids[0])
eq(text(iopub(ids[1])), "still\n", "stop_on_error=False")

# While a cell runs: completion and kernel_info answer, and status ends busy.
mid = kc.execute("loop")
begun(mid)
asked = set()
for send in (lambda: kc.complete("pr"), lambda: kc.is_complete("x"), lambda: kc.inspect("print"), lambda: kc.history(n=1), kc.kernel_info, kc.comm_info):
    t = time.time()
    asked.add(send())
    r = kc.get_shell_msg(timeout=T)
    assert r["parent_header"]["msg_id"] in asked, r
    eq(r["content"].get("status") != "error", True, "beside a cell")
    assert time.time() - t < 0.5
i = request("control", "kernel_info_request", {})
info = reply(i, "control")["content"]
eq((info["protocol_version"], info["supported_features"], info["language_info"]["name"]), ("5.5", ["debugger", "kernel subshells"], "go"), "kernel_info")
i = request("control", "debug_request", {"type": "request", "seq": 7, "command": "debugInfo", "arguments": {}})
eq(reply(i, "control")["content"], {"type": "response", "request_seq": 7, "command": "debugInfo", "success": True}, "debug_reply beside a cell")
asked.add(i)
while asked:
    m = kc.get_iopub_msg(timeout=T)
    if m["content"].get("execution_state") == "idle":
        asked.discard(m["parent_header"]["msg_id"])
m = kc.get_iopub_msg(timeout=T)
eq((m["parent_header"]["msg_id"], m["content"]), (mid, {"execution_state": "busy"}), "last status while a cell runs")
t = time.time()
i = request("control", "interrupt_request", {})
eq(reply(i, "control")["content"], {"status": "ok"}, "interrupt_reply")
eq(reply(mid)["content"]["ename"], "Interrupted", "interrupted")
assert time.time() - t < 0.5

# The backlog of an interrupted cell is dropped; SIGINT interrupts as well, and does no harm when idle.
mid = kc.execute("spam")
while "spam" not in begun(mid):
    pass
os.kill(km.provisioner.process.pid, signal.SIGINT)
eq(reply(mid)["content"]["status"], "error", "SIGINT")
out = iopub(mid)
assert "backlog" not in text(out), text(out)[-100:]
os.kill(km.provisioner.process.pid, signal.SIGINT)
time.sleep(0.5)  # nothing tells that a kernel has had an idle SIGINT
eq(text(run("print alive")[1]), "alive\n", "after an idle SIGINT")

# stdin: answered, interrupted, refused.
mid = kc.execute("input name?", allow_stdin=True)
m = kc.get_stdin_msg(timeout=T)
eq((m["content"], m["parent_header"]["msg_id"]), ({"prompt": "name?", "password": False}, mid), "input_request")
kc.input("Ada")
reply(mid)
eq(text(iopub(mid)), "got Ada\n", "input")
mid = kc.execute("input name?", allow_stdin=True)
kc.get_stdin_msg(timeout=T)
request("control", "interrupt_request", {})
eq(reply(mid)["content"]["ename"], "Interrupted", "interrupted input")
eq(run("input x", allow_stdin=False)[0]["ename"], "NoInput", "no stdin")

# A lost worker: the error says how to replay, and the line does it.
r, out = run("die")
assert any("%replay" in line for line in r["traceback"]), r
r, out = run("%replay")
eq(r["status"], "ok", "replay")
assert "Replaying" in text(out) and "again" in text(out), text(out)[:300]

# History.
i = kc.history(hist_access_type="search", pattern="print a*", n=2, output=False)
eq([h[2] for h in reply(i)["content"]["history"]], ["print again", "print alive"], "search")
i = kc.history(hist_access_type="range", session=0, start=1, stop=2, output=True)
eq([h[1:] for h in reply(i)["content"]["history"]], [[1, ["print a\nwarn b\ndisplay c\ncreate d\nupdate e\nvalue 3\nprint f", "3"]]], "range")

# Unknown comm targets are closed, unknown and broken messages survived.
i = request("shell", "comm_open", {"comm_id": "c1", "target_name": "unknown", "data": {}})
eq([(t, c.get("comm_id")) for t, c in iopub(i)][1], ("comm_close", "c1"), "unknown comm")

# Comms live as long as both sides want; buffers travel beside the signed parts.
iopub(request("shell", "comm_open", {"comm_id": "c2", "target_name": "echo", "data": {}}))
i = request("control", "comm_info_request", {"target_name": "echo"})
eq(reply(i, "control")["content"]["comms"], {"c2": {"target_name": "echo"}}, "comm_info")
msg = kc.session.msg("comm_msg", {"comm_id": "c2", "data": {"x": [1, 2]}})
kc.session.send(kc.shell_channel.socket, msg, buffers=[b"\x00\xffbytes"])
while (m := kc.get_iopub_msg(timeout=T))["msg_type"] != "comm_msg":
    pass
eq((m["content"], [bytes(b) for b in m["buffers"]], m["parent_header"]["msg_id"]),
   ({"comm_id": "c2", "data": {"x": [1, 2]}}, [b"\x00\xffbytes"], msg["header"]["msg_id"]), "comm_msg")
iopub(request("shell", "comm_close", {"comm_id": "c2", "data": {}}))
i = request("shell", "comm_info_request", {})
eq(reply(i)["content"]["comms"], {}, "comm_info after the close")
i = request("shell", "no_such_request", {"x": 1})
eq([t for t, _ in iopub(i)], ["status", "status"], "unknown type")
i = request("shell", "execute_request", {"code": 5})
eq(reply(i)["content"]["status"], "error", "code is no text")
raw = zmq.Context().socket(zmq.DEALER)
raw.linger = 0
raw.connect(f"tcp://127.0.0.1:{kc.shell_port}")
good = kc.session.serialize(kc.session.msg("execute_request", {"code": "print forged", "silent": False}))
good = good[good.index(b"<IDS|MSG>"):]
forged = [good[0], b"0" * 64] + good[2:]
for parts in (forged, [b""], [b"<IDS|MSG>"], [b"x"] * 70, good[:3], [good[0], good[1], b"{"] + good[3:], good[:2] + [b"\xff\xfe"] * 4):
    raw.send_multipart(parts)
time.sleep(0.2)
eq(text(run("print alive")[1]), "alive\n", "after broken messages")
try:
    while True:
        m = kc.get_iopub_msg(timeout=0.2)
        assert "forged" not in str(m["content"]), m
except Empty:
    pass

# 10,000 mutated messages, half of them signed again after the mutation, and the kernel still answers.
import random
rng = random.Random(1)
odd = [None, 0, -1, 1 << 70, 1.5, "", "x" * 1000, "\0", [], [[]], {}, {"a": {}}, True]
types = [t + "_request" for t in ("execute", "complete", "inspect", "is_complete", "history", "kernel_info", "comm_info", "interrupt")] + [
    "comm_open", "comm_msg", "comm_close", "input_reply", "status", ""]
fields = ["code", "silent", "store_history", "user_expressions", "allow_stdin", "stop_on_error", "cursor_pos", "detail_level",
          "hist_access_type", "session", "start", "stop", "n", "pattern", "unique", "output", "comm_id", "target_name", "data", "value"]
for n in range(10000):
    content = {f: rng.choice(odd) for f in rng.sample(fields, rng.randrange(len(fields)))}
    if rng.random() < 0.5 and "code" not in content:
        content["code"] = "print x"
    parts = kc.session.serialize(kc.session.msg(rng.choice(types), content))
    parts = parts[parts.index(b"<IDS|MSG>"):]
    for _ in range(rng.randrange(3)):
        i = rng.randrange(len(parts))
        b = bytearray(parts[i])
        if b and rng.random() < 0.8:
            b[rng.randrange(len(b))] = rng.randrange(256)
        else:
            b = b[: len(b) // 2]
        parts[i] = bytes(b)
    if rng.random() < 0.5 and len(parts) >= 6:
        parts[1] = kc.session.sign(parts[2:6])
    raw.send_multipart(parts)
# The connection keeps its order: when its last cell is answered, so is all before it.
end = kc.session.msg("execute_request", {"code": "print end", "silent": False})
parts = kc.session.serialize(end)
raw.send_multipart(parts[parts.index(b"<IDS|MSG>"):])
raw.rcvtimeo = 1000 * T
while end["header"]["msg_id"].encode() not in b"".join(raw.recv_multipart()[:4]):
    pass
raw.close()
kc.stop_channels()
kc = km.client()
kc.start_channels()
kc.wait_for_ready(timeout=30)
eq(text(run("print alive")[1]), "alive\n", "after 10,000 mutated messages")

# Shutdown while a cell runs.
begun(kc.execute("loop"))
t = time.time()
i = request("control", "shutdown_request", {"restart": False})
eq(reply(i, "control")["content"], {"status": "ok", "restart": False}, "shutdown_reply")
while km.provisioner.process.poll() is None:
    assert time.time() - t < 4 * 0.5, "still there"
    time.sleep(0.01)
eq(km.provisioner.process.returncode, 0, "exit status")
print(f"ok; shutdown while busy took {time.time() - t:.3f} s")
os._exit(0)
