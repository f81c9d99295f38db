"""Attacks on the server. Each is bounded in number and time and talks to a server of its own on loopback."""

import json
import multiprocessing
import os
import random
import signal
import socket
import stat
import subprocess
import threading
import time

from common import FORM, Attack, Honest, Server, answer, form, is_json_error, photo, png, request

GIF = (b"GIF89a\xff\xff\xa8\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b")


def side_by_side(count, work):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pixels(binary):
    """Small files that claim many pixels, in 2 GB of address space."""
    attack = Attack("small files, many pixels, in 2 GB")
    with Server(binary, memory=2_000 << 20) as server:
        path = server.task()
        wide = png(148_000, 168, grey=False)
        for target in ("/v1/tasks", path):
            status, _, body = server.ask("POST", target, form([(i % 2, GIF) for i in range(500)]), FORM)
            attack.check(status == 413 and is_json_error(body), (target, status, body[:200]))
        bodies = [form([(i % 2, image) for i in range(count)]) for image, count in ((GIF, 22), (wide, 10)) * 3]

        def send(i):
            status, _, body = server.ask("POST", path, bodies[i], FORM, timeout=120)
            attack.check(status == 200, (i, status, body[:200]))

        side_by_side(len(bodies), send)
        attack.check(server.alive() and server.ask("GET", "/health")[0] == 200, "the server is gone")
        attack.note(f"{server.memory_mb():.0f} MB resident after")
    return attack


def methods(binary):
    """Methods and headers that nobody knows, without a token."""
    attack = Attack("unknown methods and long headers")
    with Server(binary, ["--token", "secret"]) as server:
        before = server.memory_mb()
        for i in range(3000):
            with server.connect() as stream:
                stream.sendall(request(f"M{i}" + "X" * 10_000, "/v1/tasks"))
                status, _, body = answer(stream)
                attack.check(status == 501 and is_json_error(body), (status, body[:100]))
        grown = server.memory_mb() - before
        attack.check(grown < 30, f"{grown:.0f} MB grown")
        attack.note(f"memory grew by {grown:.1f} MB")
    return attack


def never_read(binary, count=4200, seconds=12):
    """Clients that pipeline requests and never read an answer."""
    attack = Attack(f"{count} readers that never read")
    with Server(binary) as server:
        path = server.task()
        ask = request("GET", "/openapi.json") * 60
        streams = []
        # Some honest clients send a moment after they have connected, as from far away.
        with Honest(server, path) as honest, Honest(server, path, pause=0.05) as far:
            end = time.monotonic() + seconds
            for _ in range(count):
                try:
                    stream = server.connect(5)
                    stream.setblocking(False)
                    stream.send(ask)
                    streams.append(stream)
                except OSError:
                    pass
            while time.monotonic() < end:
                for stream in streams:
                    try:
                        stream.send(ask)
                    except OSError:
                        pass
                time.sleep(0.2)
        honest.report(attack)
        far.report(attack)
        attack.note(f"{len(streams)} connected, server {server.memory_mb():.0f} MB")
        for stream in streams:
            stream.close()
    return attack


def flood(port, seconds, most=2000):
    """Connects as fast as it can, asks much and reads nothing."""
    ask = request("GET", "/openapi.json") * 60
    streams, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            stream = socket.create_connection(("127.0.0.1", port), timeout=5)
            stream.setblocking(False)
            stream.send(ask)
            streams.append(stream)
        except OSError:
            pass
        if len(streams) == most:
            for stream in streams[:most // 2]:
                stream.close()
            del streams[:most // 2]


def bursts(binary, seconds=10):
    """Connections come faster than they can be looked at; honest clients, near and far, share their address."""
    attack = Attack("floods of connections from three sides")
    with Server(binary) as server:
        path = server.task()
        floods = [multiprocessing.Process(target=flood, args=(server.port, seconds)) for _ in range(3)]
        clients = [Honest(server, path, every=0.02, pause=pause) for pause in (0.0, 0.02, 0.05)]
        with clients[0], clients[1], clients[2]:
            for process in floods:
                process.start()
            for process in floods:
                process.join()
        for honest in clients:
            honest.report(attack)
        attack.note(f"server {server.memory_mb():.0f} MB")
    return attack


def heavy(binary, seconds=15):
    """Requests that are small to send and dear to answer, from many sides."""
    attack = Attack("500 images at once to a task of 100 classes")
    with Server(binary) as server:
        small, large = server.task(), server.task(100)
        body = form([("q", png(seed=i)) for i in range(500)])
        end = time.monotonic() + seconds
        with Honest(server, small) as honest:

            def send(i):
                while time.monotonic() < end:
                    status, _, answered = server.ask("POST", large, body, FORM, timeout=120)
                    attack.check(status in (200, 503), (status, answered[:200]))

            side_by_side(8, send)
        honest.report(attack)
    return attack


def hard_tasks(binary, seconds=15):
    """Tasks that take seconds to fit, one after the other, from many sides; their clients leave early."""
    attack = Attack("dear tasks, clients that leave")
    with Server(binary) as server:
        small = server.task()
        body = form([(f"c{i % 50}", png(seed=i)) for i in range(200)])
        end = time.monotonic() + seconds
        with Honest(server, small) as honest:

            def send(i):
                while time.monotonic() < end:
                    with server.connect() as stream:
                        stream.sendall(request("POST", "/v1/tasks?keep=false", body, FORM))
                        time.sleep(0.7)
                    attack.check(True, "")

            side_by_side(6, send)
        honest.report(attack)
        # What they left behind ends at once: the cores are idle again.
        time.sleep(0.7)
        spent = cpu_seconds(server)
        time.sleep(2)
        spent = cpu_seconds(server) - spent
        attack.check(spent < 1.0, f"{spent:.1f} s of cores in 2 s after everybody left")
    return attack


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as line:
        fields = line.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slow_bodies(binary, seconds=12):
    """Bodies that begin and stop: 64 of one byte, and 12 of 30 MB that end just before their end."""
    attack = Attack("bodies that stand still")
    with Server(binary) as server:
        path = server.task()
        streams = []
        with Honest(server, path) as honest, Honest(server, path, photo(), 0.3) as large:
            for _ in range(64):
                stream = server.connect()
                stream.sendall(request("POST", path, b"", "image/png", ["Transfer-Encoding: chunked"])
                               .replace(b"Content-Length: 0\r\n", b"") + b"1\r\nx\r\n")
                streams.append(stream)
            piece = bytes(1 << 20)
            for _ in range(12):
                try:
                    stream = server.connect(2)
                    stream.sendall(request("POST", path, b"", "image/png", length=31 << 20))
                    for _ in range(30):
                        stream.sendall(piece)
                    streams.append(stream)
                except OSError:
                    pass
            time.sleep(seconds)
        honest.report(attack)
        large.report(attack)
        for stream in streams:
            stream.close()
    return attack


def sizes(binary):
    """Tasks, names and numbers that are too large."""
    attack = Attack("sizes beyond their bounds")
    with Server(binary) as server:
        path = server.task()
        two = form([("a", png(seed=1)), ("b", png(seed=2))])
        cases = [
            ("500 classes of one image", "/v1/tasks", form([(f"c{i}", png(seed=i)) for i in range(500)]), FORM, (422,)),
            ("600 images", "/v1/tasks", form([(i % 2, png(seed=i)) for i in range(600)]), FORM, (400,)),
            ("a name of 20 MB", "/v1/tasks", form([("n" * (20 << 20), png()), ("b", png())]), FORM, (400, 422)),
            ("a title of 3 kB", "/v1/tasks?name=" + "t" * 3000, two, FORM, (422,)),
            ("a title beyond every path", "/v1/tasks?name=" + "t" * 9000, two, FORM, (414,)),
            ("a title with an escape", "/v1/tasks?name=%1b%5b2J", two, FORM, (422,)),
            ("a class with an escape", "/v1/tasks", form([("\x1b[2J", png()), ("b", png())]), FORM, (400, 422)),
            ("an unknown setting", "/v1/tasks?nmae=x", two, FORM, (400,)),
            ("explain beyond all", path + "?explain=18446744073709551615", png(), "image/png", (200,)),
            ("explain beyond numbers", path + "?explain=18446744073709551616", png(), "image/png", (400,)),
            ("level NaN", path + "?level=NaN", png(), "image/png", (422,)),
            ("JSON, 100,000 deep", path, b"[" * 100_000, "application/json", (400,)),
            ("JSON, a million classes", "/v1/tasks",
             json.dumps({"classes": [{"name": "", "images": []}] * 1_000_000}).encode(), "application/json", (400, 422)),
            ("a body of 1 GB, by its length", path, b"", "image/png", None),
        ]
        for name, target, body, kind, allowed in cases:
            if allowed is None:
                status, _, answered = server.raw(request("POST", target, b"", kind, length=1 << 30))
                allowed = (413,)
            else:
                status, _, answered = server.ask("POST", target, body, kind)
            attack.check(status in allowed and (status == 200 or is_json_error(answered)), (name, status, answered[:200]))
        attack.check(server.alive() and server.memory_mb() < 600, f"{server.memory_mb():.0f} MB")
        attack.note(f"{server.memory_mb():.0f} MB resident after")
    return attack


def origins(binary):
    """Hosts and origins of elsewhere, and such that do not parse."""
    attack = Attack("hosts and origins")
    with Server(binary) as server:
        here = f"127.0.0.1:{server.port}"
        refused = [("evil.example", ()), ("localhost.evil.example", ()), ("127.0.0.1.evil.example", ()), ("localhost:", ()),
                   ("localhost:x", ()), ("localhost:80:80", ()), ("a@localhost", ()), ("\xff", ()), ("[::1", ()), ("", ()),
                   (None, ())]
        for origin in ("https://evil.example", "http://evil.example://localhost", "null", "http://localhost:1",
                       f"http://{here}@evil.example", f"https://{here}", f"http://{here}/", "http://\xff", ""):
            refused.append((here, (f"Origin: {origin}",)))
        refused += [(here, ("Sec-Fetch-Site: cross-site",)), (here, ("Sec-Fetch-Site: same-site",)), (here, (f"Host: {here}",)),
                    (here, (f"Origin: http://{here}", "Origin: https://evil.example"))]
        for host, headers in refused:
            status, _, body = server.raw(request("GET", "/v1/tasks", headers=list(headers) + ["Connection: close"], host=host))
            attack.check(status in (400, 403) and is_json_error(body), (host, headers, status, body[:100]))
        absolute = server.raw(request("GET", "http://evil.example/v1/tasks", headers=["Connection: close"], host=here))
        attack.check(absolute[0] in (400, 403), absolute[0])
        for headers in ((), (f"Origin: http://{here}",), ("Sec-Fetch-Site: same-origin",)):
            status, _, body = server.raw(request("GET", "/v1/tasks", headers=list(headers) + ["Connection: close"], host=here))
            attack.check(status == 200, (headers, status, body[:100]))
    return attack


def broken_http(binary, count=1500):
    """What is no HTTP, or nearly: every answer is JSON, or there is none; the server lives."""
    attack = Attack("broken HTTP and mutated requests")
    rng = random.Random(1)
    with Server(binary) as server:
        path = server.task()
        fixed = [
            b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n",
            b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200 + b"\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
            b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /v1/tasks/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /v1/tasks/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /v1/tasks?name=%ff HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        ]
        seeds = [
            request("POST", path, png(seed=1), "image/png"), request("POST", path, form([("q", png()), ("q", png(seed=2))]), FORM),
            request("POST", path, json.dumps({"images": ["aGVsbG8="], "level": 0.9}).encode(), "application/json"),
            request("POST", "/v1/tasks?keep=false", form([("a", png()), ("b", png(seed=2))]), FORM),
            request("POST", "/v1/tasks", json.dumps({"keep": False, "classes": [{"name": "a", "images": ["data:,"]}]}).encode(),
                    "application/json"),
        ]
        for data in fixed + [mutated(rng, rng.choice(seeds)) for _ in range(count)]:
            with server.connect(10) as stream:
                try:
                    stream.sendall(data)
                    stream.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                status, head, body = answer(stream)
            good = status in (0, 200, 201, 204) or (status < 500 and is_json_error(body)) or (status == 501 and is_json_error(body))
            attack.check(good and b"/root" not in body, (data[:80], status, head[:80], body[:100]))
        attack.check(server.ask("GET", "/health")[0] == 200, "the server is gone")
    return attack


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0: data[at] = rng.randrange(256)
            case 1: data[at] ^= 1 << rng.randrange(8)
            case 2: del data[at:at + rng.randrange(1, 20)]
            case _: data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        if not data:
            break
    return bytes(data) or b"x"


def task_count(binary):
    """Many tasks at once where few are allowed."""
    attack = Attack("--max-tasks 5, 40 at once")
    with Server(binary, ["--max-tasks", "5"]) as server:
        body = form([("a", png()), ("b", png(seed=2))])
        statuses = []
        side_by_side(40, lambda i: statuses.append(server.ask("POST", "/v1/tasks", body, FORM, timeout=120)[0]))
        attack.check(sorted(statuses) == [201] * 5 + [409] * 35, sorted(statuses))
        held = len(json.loads(server.ask("GET", "/v1/tasks")[2])["tasks"])
        files = [name for name in os.listdir(server.state) if name.endswith(".task")]
        attack.check(held == 5 and len(files) == 5, (held, files))
    return attack


def terminated(binary, rounds=8):
    """SIGTERM under load: whoever was connected is answered."""
    attack = Attack("SIGTERM under load")
    for _ in range(rounds):
        with Server(binary) as server:
            path = server.task()
            lost, answered, stop = [], [], threading.Event()

            def client(_):
                while not stop.is_set():
                    try:
                        stream = server.connect(5)
                    except OSError:
                        return
                    with stream:
                        try:
                            stream.sendall(request("POST", path, png(seed=5), "image/png", ["Connection: close"]))
                            status, _, body = answer(stream)
                        except OSError as error:
                            status, body = 0, error
                        (answered if status == 200 else lost).append((status, body))

            ends = threading.Timer(0.8, lambda: server.process.send_signal(signal.SIGTERM))
            ends.start()
            side_by_side(16, client)
            stop.set()
            code = server.process.wait(60)
            for _ in answered:
                attack.check(True, "")
            attack.check(not lost, f"{len(lost)} of {len(lost) + len(answered)} lost: {lost[:1]}")
            attack.check(code == 0, f"exit code {code}")
    return attack


def state_folder(binary):
    """The folder of tasks: private, for one server at a time, and what else may lie in it."""
    attack = Attack("the state folder")
    with Server(binary) as server:
        server.task()
        mode = lambda path: stat.S_IMODE(os.stat(path).st_mode)
        task = [name for name in os.listdir(server.state) if name.endswith(".task")][0]
        attack.check(mode(server.state) == 0o700, oct(mode(server.state)))
        attack.check(mode(os.path.join(server.state, task)) == 0o600, oct(mode(os.path.join(server.state, task))))
        second = subprocess.run([binary, "serve", "--port", "0", "--state", server.state], capture_output=True, text=True, timeout=60)
        attack.check(second.returncode != 0 and "another siskin" in second.stderr, second.stderr)
        server.process.kill()
        server.process.wait()
        whole = open(os.path.join(server.state, task), "rb").read()
        put = lambda name, data: open(os.path.join(server.state, name), "wb").write(data)
        os.mkfifo(os.path.join(server.state, "0000000000000001.task"))
        os.symlink("/dev/zero", os.path.join(server.state, "0000000000000002.task"))
        os.mkdir(os.path.join(server.state, "0000000000000003.task"))
        put("0000000000000004.task", whole[:100])
        put(".1-1.siskin-writing", whole[:100])
        rng = random.Random(2)
        for i in range(5, 105):
            damaged = bytearray(whole)
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            put(f"{i:016}.task", damaged)
        server.start()
        tasks = json.loads(server.ask("GET", "/v1/tasks")[2])["tasks"]
        attack.check(len(tasks) == 1, f"{len(tasks)} tasks of 1 good file and 104 others")
        attack.tried += 104
        attack.check(not os.path.exists(os.path.join(server.state, ".1-1.siskin-writing")), "a draft of the dead stays")
    return attack


ALL = [pixels, methods, never_read, bursts, heavy, hard_tasks, slow_bodies, sizes, origins, broken_http, task_count, terminated, state_folder]
