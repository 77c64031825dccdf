"""Talks to the three sockets of TestLibzmq with libzmq. Arguments: router, xpub and rep endpoints."""
import sys
import time
import zmq

router, xpub, rep = sys.argv[1:4]
ctx = zmq.Context()


def sock(kind, endpoint, **opts):
    s = ctx.socket(kind)
    s.linger = 0
    s.rcvtimeo = 5000
    for k, v in opts.items():
        setattr(s, k, v)
    s.connect(endpoint)
    return s


def check(got, want, what):
    assert got == want, f"{what}: got {got!r:.200}, want {want!r:.200}"


# ROUTER: the server echoes parts with the identity in front.
d = sock(zmq.DEALER, router, identity=b"alice")
d.send_multipart([b"a", b"", b"b" * 300])
check(d.recv_multipart(), [b"alice", b"a", b"", b"b" * 300], "echo")
big = bytes(range(256)) * (1 << 16)  # 16 MiB
d.send_multipart([big, b"x"])
check(d.recv_multipart(), [b"alice", big, b"x"], "big echo")
for i in range(2000):
    d.send_multipart([b"n%d" % i])
for i in range(2000):
    check(d.recv_multipart(), [b"alice", b"n%d" % i], "burst")
anon = sock(zmq.DEALER, router)
anon.send(b"hi")
got = anon.recv_multipart()
assert got[0][:1] == b"\0" and got[1] == b"hi", got

# ZMTP heartbeats: libzmq sends PING and closes the connection without PONG.
h = sock(zmq.DEALER, router, identity=b"beat", heartbeat_ivl=50, heartbeat_timeout=200, reconnect_ivl=-1)
time.sleep(0.6)
h.send(b"alive")
check(h.recv_multipart(), [b"beat", b"alive"], "after heartbeats")

# The same identity connects again: the newest one is served.
d2 = sock(zmq.DEALER, router, identity=b"alice")
d2.send(b"again")
check(d2.recv_multipart(), [b"alice", b"again"], "same identity")
d.close()

# More than 64 parts closes the connection; libzmq connects again and is served.
bad = sock(zmq.DEALER, router, identity=b"bad")
bad.send_multipart([b"p"] * 65)
time.sleep(0.2)
bad.send(b"ok")
check(bad.recv_multipart(), [b"bad", b"ok"], "after too many parts")

# XPUB: each new subscription gets its welcome first; prefixes select.
s = sock(zmq.SUB, xpub)
s.subscribe(b"")
check(s.recv_multipart(), [b"welcome", b""], "welcome")
p = sock(zmq.SUB, xpub)
p.subscribe(b"ab")
check(p.recv_multipart(), [b"ab", b"welcome", b"ab"], "welcome to ab")
d2.send_multipart([b"publish", b"abc", b"1"])
d2.send_multipart([b"publish", b"x", b"2"])
d2.send_multipart([b"publish", b"ab", b"3"])
check([s.recv_multipart() for _ in range(3)], [[b"abc", b"1"], [b"x", b"2"], [b"ab", b"3"]], "all")
check([p.recv_multipart() for _ in range(2)], [[b"abc", b"1"], [b"ab", b"3"]], "prefix ab")
p.unsubscribe(b"ab")
time.sleep(0.1)
d2.send_multipart([b"publish", b"abc", b"4"])
check(s.recv_multipart(), [b"abc", b"4"], "still all")
p.rcvtimeo = 200
try:
    raise AssertionError(f"after unsubscribe: {p.recv_multipart()}")
except zmq.Again:
    pass

# A subscriber that never reads holds up nobody.
stuck = sock(zmq.SUB, xpub, rcvhwm=1)
stuck.subscribe(b"")
time.sleep(0.1)
mb = b"m" * (1 << 20)
for i in range(100):
    d2.send_multipart([b"publish", b"z%d" % i, mb])
for i in range(100):
    check(s.recv_multipart(), [b"z%d" % i, mb], "beside a stuck subscriber")

# A wrong socket type is refused and does no harm.
wrong = sock(zmq.SUB, router)
wrong.subscribe(b"")

# REP: echo with the envelope of REQ and of DEALER.
q = sock(zmq.REQ, rep)
for i in range(3):
    q.send(b"beat%d" % i)
    check(q.recv(), b"beat%d" % i, "heartbeat")
e = sock(zmq.DEALER, rep)
e.send_multipart([b"", b"x", b"y"])
check(e.recv_multipart(), [b"", b"x", b"y"], "REP with DEALER")

d2.send(b"last")
check(d2.recv_multipart(), [b"alice", b"last"], "last")
# What is queued at the end still arrives.
d2.send_multipart([b"close", b"c" * 5_000_000])
check(d2.recv_multipart(), [b"alice", b"close", b"c" * 5_000_000], "at close")
print("ok")
