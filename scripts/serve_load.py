"""The work of serve_load.sh: starts the server, loads it, treats it badly, kills it, and looks whether it lost anything."""

import asyncio
import base64
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

BINARY, SECONDS = sys.argv[1], float(sys.argv[2])


def png(kind, shift=0):
    """A 105 x 105 grey drawing: black strokes on white, one of five kinds."""
    side, rows = 105, b""
    for y in range(side):
        row = bytearray([0])
        for x in range(side):
            u, v = x - 52 - shift, y - 52 + shift
            inside = abs(u) < 36 and abs(v) < 36
            dark = inside and [abs(u) < 3, abs(v) < 3, abs(u - v) < 3, abs(u + v) < 3, abs(u * u + v * v - 900) < 120][kind]
            row.append(0 if dark else 255)
        rows += bytes(row)
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Server:
    def __init__(self, state):
        self.state = state

    def start(self):
        command = [BINARY, "serve", "--port", "0", "--state", self.state, "--read-timeout", "3"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "Listening on http://" in line:
                host, port = line.split("http://")[1].split()[0].rsplit(":", 1)
                self.host, self.port = host, int(port)
                return
        sys.exit("the server did not start")

    def memory(self):
        """Resident memory in MB, and the most it ever was."""
        with open(f"/proc/{self.process.pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


async def answer(reader):
    """Status and body of one response."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return int(head.split()[1]), await reader.readexactly(length)


def request(method, path, body=b"", kind="application/json", length=None):
    length = len(body) if length is None else length
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + body


async def ask(server, data, close=False):
    """One request on a connection of its own; as curl does, it reads the answer also where the server stops listening."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        try:
            writer.write(data)
            await writer.drain()
        except ConnectionError:
            pass
        if close:
            writer.write_eof()
        return await asyncio.wait_for(answer(reader), 60)
    finally:
        writer.close()


async def load(server, data, clients):
    """Predictions per second and times, with this many clients that ask one after the other."""
    times, end = [], time.monotonic() + SECONDS

    async def client():
        reader, writer = await asyncio.open_connection(server.host, server.port)
        while time.monotonic() < end:
            start = time.monotonic()
            writer.write(data)
            status, body = await answer(reader)
            assert status == 200, body
            times.append(time.monotonic() - start)
        writer.close()

    start = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.monotonic() - start
    times.sort()
    at = lambda share: 1e3 * times[min(len(times) - 1, int(share * len(times)))]
    print(f"{clients:5} clients: {len(times) / took:8.1f} predictions/s   median {at(.5):7.2f} ms   p99 {at(.99):7.2f} ms")


async def main():
    with tempfile.TemporaryDirectory() as state:
        server = Server(state)
        server.start()
        try:
            await checks(server)
        finally:
            server.process.kill()


async def checks(server):
    encoded = lambda kind, shift=0: base64.b64encode(png(kind, shift)).decode()
    classes = [{"name": f"kind {k}", "images": [encoded(k)]} for k in range(5)]
    status, body = await ask(server, request("POST", "/v1/tasks", json.dumps({"classes": classes}).encode()))
    assert status == 201, body
    predict = f"/v1/tasks/{json.loads(body)['id']}/predict"
    query = request("POST", predict, png(3, 4), "image/png")
    status, first = await ask(server, query)
    assert status == 200 and json.loads(first)["predictions"][0]["label"] == "kind 3", first

    print(f"One 105 x 105 PNG a request, 5 classes, {SECONDS:.0f} s each, client and server on {os.cpu_count()} cores:")
    for clients in (1, 8, 64):
        await load(server, query, clients)

    print("\nBad clients:")
    calm = server.memory()[0]
    huge = request("POST", predict, png(3), "image/png", length=1 << 30)
    chunked = (f"POST {predict} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
               .encode() + (b"100000\r\n" + bytes(1 << 20) + b"\r\n") * 40 + b"0\r\n\r\n")
    short = request("POST", predict, png(3), "image/png", length=len(png(3)) + 500)
    cases = [
        ("a body of 1 GB, by its length", 413, ask(server, huge)),
        ("a body of 40 MB in pieces, length unsaid", 413, ask(server, chunked)),
        ("a body that ends early", 400, ask(server, short, close=True)),
        ("a body that comes one byte a second", 408, slow(server, predict)),
        ("text in place of an image or JSON", 415, ask(server, request("POST", predict, b"hello", "text/plain"))),
        ("JSON that is none", 400, ask(server, request("POST", predict, b"{"))),
        ("a task of one class", 422, ask(server, request("POST", "/v1/tasks", json.dumps({"classes": classes[:1]}).encode()))),
        ("a task with half an image", 400, ask(server, request("POST", "/v1/tasks", json.dumps(
            {"classes": [{"name": "a", "images": [encoded(2)[:200]]}, classes[1]]}).encode()))),
        ("a task that is not there", 404, ask(server, request("POST", "/v1/tasks/0123456789abcdef/predict", png(0), "image/png"))),
        ("a page of elsewhere", 403, ask(server, request("GET", "/v1/tasks").replace(b"Host: 127.0.0.1", b"Host: evil.example"))),
    ]
    for name, expected, attempt in cases:
        status, body = await attempt
        print(f"  {name:42} {status}  {json.loads(body)['error'][:70]}")
        assert status == expected, (name, status, body)
    status, body = await ask(server, request("POST", predict, b"no image", "image/png"))
    assert status == 200 and "error" in json.loads(body)["predictions"][0], body
    print(f"  {'a query that is no image':42} 200  {json.loads(body)['predictions'][0]['error'][:70]}")

    # Forty bodies of 31 MB at once: more than a gigabyte, of which at most 256 MB may be in memory.
    big = request("POST", predict, bytes(31 << 20), "image/png")
    answers = await asyncio.gather(*(ask(server, big) for _ in range(40)), return_exceptions=True)
    statuses = sorted({a[0] if isinstance(a, tuple) else type(a).__name__ for a in answers}, key=str)
    now, most = server.memory()
    print(f"  40 bodies of 31 MB at once: statuses {statuses}; memory {calm:.0f} MB before, {most:.0f} MB at most")
    assert most < calm + 600, "memory is not bounded"

    print("\n1,000 connections at once:")
    pairs = await asyncio.gather(*(asyncio.open_connection(server.host, server.port) for _ in range(1000)))
    start = time.monotonic()
    for _, writer in pairs:
        writer.write(query)
    answers = await asyncio.gather(*(answer(reader) for reader, _ in pairs))
    right = sum(status == 200 and body == first for status, body in answers)
    print(f"  {right} of 1000 got the right answer, the last after {time.monotonic() - start:.1f} s")
    assert right == 1000
    for _, writer in pairs:
        writer.close()

    print("\nkill -9 and restart:")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()
    status, again = await ask(server, query)
    print(f"  the task answers {status}, the same bytes: {again == first}")
    assert status == 200 and again == first


async def slow(server, predict):
    """The head at once, then a byte a second: the server gives up first."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(request("POST", predict, b"", "image/png", length=1000))
    waiting = asyncio.create_task(answer(reader))
    while not waiting.done():
        writer.write(b"x")
        await asyncio.sleep(1)
    writer.close()
    return await waiting


asyncio.run(main())
