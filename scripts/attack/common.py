"""What the attacks share: a server of their own on loopback, raw requests, an honest client that watches, and the table."""

import json
import multiprocessing
import os
import random
import resource
import socket
import struct
import subprocess
import tempfile
import time
import zlib

FORM = "multipart/form-data; boundary=XX"


class Attack:
    """One row of the table: what was tried, what failed, and the figures to report."""

    def __init__(self, name):
        self.name, self.tried, self.failures, self.notes = name, 0, [], []

    def check(self, good, what):
        self.tried += 1
        if not good:
            self.failures.append(str(what)[:300])

    def note(self, text):
        self.notes.append(text)


def png(width=28, height=28, seed=0, grey=True):
    """A drawing: some dark lines on white, by its seed; or many equal pixels, which pack well."""
    rng = random.Random(seed)
    if grey:
        rows = [bytearray([255]) * width for _ in range(height)]
        for _ in range(3):
            x0, y0, x1, y1 = (rng.randrange(3, side - 3) for side in (width, height, width, height))
            for t in range(60):
                rows[y0 + (y1 - y0) * t // 59][x0 + (x1 - x0) * t // 59] = 0
        raw = b"".join(b"\0" + bytes(row) for row in rows)
    else:
        raw = (b"\0" + b"\xc8" * (3 * width)) * height
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if grey else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def form(parts, first=0):
    """A form of (class, image) pairs. The images are called by numbers from `first` on."""
    out = b""
    for i, (name, image) in enumerate(parts, first):
        out += f'--XX\r\nContent-Disposition: form-data; name="{name}"; filename="{i}"\r\n\r\n'.encode() + image + b"\r\n"
    return out + b"--XX--\r\n"


def request(method, path, body=b"", kind=None, headers=(), host="127.0.0.1", length=None):
    lines = [f"{method} {path} HTTP/1.1"] + ([f"Host: {host}"] if host else [])
    lines += [f"Content-Length: {len(body) if length is None else length}"] + list(headers)
    lines += [f"Content-Type: {kind}"] if kind else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class Server:
    """A server with a state folder of its own, stopped at the end of a `with` block."""

    def __init__(self, binary, args=(), memory=None, state=None, within=()):
        """`within`: a command that starts the binary, which is given behind it."""
        self.binary, self.args, self.memory, self.within = binary, list(args), memory, list(within)
        self.folder = tempfile.TemporaryDirectory()
        self.state = state or os.path.join(self.folder.name, "state")

    def start(self):
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))) if self.memory else None
        command = self.within + [self.binary, "serve", "--port", "0", "--state", self.state] + self.args
        environment = {k: v for k, v in os.environ.items() if k != "SISKIN_TOKEN"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit, env=environment)
        for line in self.process.stdout:
            if "Listening on http://" in line:
                self.port = int(line.split("http://")[1].split()[0].rsplit(":", 1)[1])
                return self
        raise RuntimeError(f"the server did not start: {self.process.stderr.read()}")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def alive(self):
        return self.process.poll() is None

    def connect(self, timeout=30, source=None):
        """`source`: the address of the client, one of loopback."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout, source_address=source and (source, 0))

    def raw(self, data, timeout=60):
        """Status, head and body of the answer to these bytes; 0 if the connection ended without one."""
        with self.connect(timeout) as stream:
            try:
                stream.sendall(data)
            except OSError:
                pass
            return answer(stream)

    def ask(self, method, path, body=b"", kind=None, headers=(), timeout=60):
        return self.raw(request(method, path, body, kind, list(headers) + ["Connection: close"]), timeout)

    def task(self, classes=5, shots=1):
        """A task of drawings; the path to ask it."""
        parts = [(f"class {c}", png(seed=1000 * c + s)) for c in range(classes) for s in range(shots)]
        status, _, body = self.ask("POST", "/v1/tasks", form(parts), FORM, timeout=120)
        assert status == 201, (status, body[:300])
        return f"/v1/tasks/{json.loads(body)['id']}/predict"

    def task_of(self, body, keep=True):
        """A task of a form; its path."""
        status, _, body = self.ask("POST", f"/v1/tasks?keep={'true' if keep else 'false'}", body, FORM, timeout=120)
        assert status == 201, (status, body[:300])
        return f"/v1/tasks/{json.loads(body)['id']}"

    def memory_mb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines["VmRSS"].split()[0]) / 1024


def answer(stream):
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = stream.recv(65536)
            if not piece:
                return 0, data, b""
            data += piece
        head, body = data.split(b"\r\n\r\n", 1)
        length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while length and len(body) < length[0]:
            piece = stream.recv(65536)
            if not piece:
                break
            body += piece
        return int(head.split()[1]), head, body[:length[0]] if length else body
    except (OSError, ValueError, IndexError):
        return 0, data, b""


def is_json_error(body):
    try:
        return isinstance(json.loads(body)["error"], str)
    except (ValueError, KeyError, TypeError):
        return False


def photo():
    """A photo of 400 kB: what a person sends."""
    return png(600, 400, seed=3) + bytes(400_000)


class Honest:
    """Asks for a prediction again and again, on a new connection each time, while an attack goes on: of a drawing and of a photo, one
    after the other. A process of its own: the threads of the attack must not keep it waiting."""

    def __init__(self, server, path, image=None, every=0.1, pause=0.0, source=None):
        self.server, self.path, self.every, self.pause, self.source = server, path, every, pause, source
        self.images = [image] if image else [png(seed=7), photo()]
        self.times, self.failures = [], []

    def __enter__(self):
        context = multiprocessing.get_context("fork")
        self.stop = context.Event()
        self.results, theirs = context.Pipe(False)
        self.process = context.Process(target=self.run, args=(theirs,))
        self.process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.times, self.failures = self.results.recv()
        self.process.join()

    def run(self, results):
        while not self.stop.wait(self.every):
            start = time.monotonic()
            try:
                status, _, body = self.ask()
            except OSError as error:
                status, body = 0, str(error).encode()
            self.times.append(time.monotonic() - start)
            if status != 200:
                self.failures.append((status, body[:200]))
        results.send((self.times, self.failures))

    def ask(self):
        """Connects, sends after the pause, and waits for the answer."""
        image = self.images[len(self.times) % len(self.images)]
        with self.server.connect(30, self.source) as stream:
            time.sleep(self.pause)
            stream.sendall(request("POST", self.path, image, "image/png", ["Connection: close"]))
            return answer(stream)

    def report(self, attack, within=1.0):
        """All were answered, and within so many seconds."""
        for _ in self.times:
            attack.check(True, "")
        for failure in self.failures:
            attack.failures.append(f"an honest client got {failure}")
        times = sorted(self.times)
        slow = [t for t in times if t > within]
        if slow:
            attack.failures.append(f"{len(slow)} of {len(times)} honest requests took more than {within} s, the slowest {slow[-1]:.2f} s")
        if times:
            at = lambda share: times[min(len(times) - 1, int(share * len(times)))]
            attack.note(f"honest: {len(times)} asked, median {1e3 * at(.5):.0f} ms, p99 {1e3 * at(.99):.0f} ms, slowest {1e3 * times[-1]:.0f} ms")
