"""Odd things to send: answers that grow, strange HTTP, strange JSON, strange images, many hands on one task."""

import base64
import json
import socket
import struct
import threading
import time
import zlib

from common import FORM, Attack, Honest, Server, answer, form, is_json_error, png, request
from server import cpu_seconds, side_by_side


def long_answers(binary, seconds=20):
    """Questions that are small and whose answers are long, from clients that do not read them."""
    attack = Attack("long answers that nobody reads")
    with Server(binary) as server:
        small = server.task()
        name = "n" * 190
        parts = b"".join(
            f'--XX\r\nContent-Disposition: form-data; name="{name}{i % 2}"; filename="{name}{i}"\r\n\r\n'.encode()
            + png(seed=i) + b"\r\n" for i in range(200))
        status, _, body = server.ask("POST", "/v1/tasks", parts + b"--XX--\r\n", FORM, timeout=120)
        assert status == 201, (status, body[:200])
        path = f"/v1/tasks/{json.loads(body)['id']}/predict"
        images = form([("q", png(seed=i)) for i in range(200)])
        status, _, body = server.ask("POST", path + "?explain=200", form([("q", png(seed=i)) for i in range(400)]), FORM)
        attack.check(status == 413 and is_json_error(body), ("an answer of 100 MB", status, body[:200]))
        most, streams, end = [0], [], time.monotonic() + seconds

        def watch():
            while time.monotonic() < end:
                most[0] = max(most[0], server.memory_mb())
                time.sleep(0.1)

        watching = threading.Thread(target=watch)
        watching.start()
        with Honest(server, small) as honest:
            for _ in range(60):
                stream = server.connect()
                stream.sendall(request("POST", path + "?explain=150", images, FORM))
                streams.append(stream)
            watching.join()
        honest.report(attack)
        attack.check(server.alive() and most[0] < 700, f"{most[0]:.0f} MB")
        attack.note(f"memory {most[0]:.0f} MB at most")
        for stream in streams:
            stream.close()
    return attack


def unfolding(binary):
    """Bodies that unfold: empty strings in JSON, deep nesting, twice the same key, numbers beyond numbers."""
    attack = Attack("JSON that unfolds, and numbers that are none")
    with Server(binary) as server:
        path, kind = server.task(), "application/json"
        image = base64.b64encode(png(seed=1)).decode()
        ask = lambda target, text: server.ask("POST", target, text if isinstance(text, bytes) else text.encode(), kind, timeout=120)
        refused = [
            (path, b'{"images":[' + b'"",' * 8_000_000 + b'""]}'),
            ("/v1/tasks", b'{"classes":[{"name":"a","images":[' + b'"",' * 8_000_000 + b'""]}]}'),
            ("/v1/tasks", b'{"classes":[' + b'{"name":"","images":[]},' * 1_000_000 + b'{}]}'),
            (path, b'{"a":' * 100_000), (path, b"[" * 1_000_000), (path, b'{"images":' + b"[" * 100_000),
            (path, f'{{"images":["{image}"],"images":["{image}"]}}'), (path, f'{{"images":["{image}"],"level":1e400}}'),
            (path, f'{{"images":["{image}"],"level":-1e400}}'), (path, f'{{"images":["{image}"],"level":NaN}}'),
            (path, f'{{"images":["{image}"],"level":"0.9"}}'), (path, f'{{"images":["{image}"],"explain":-1}}'),
            (path, f'{{"images":["{image}"],"explain":1e3}}'), (path, f'{{"images":["{image}"],"level":1e-400}}'),
            (path, f'{{"images":["{image}"],"abstain":-0.0001}}'), (path, '{"images":"x"}'), (path, '{"images":[null]}'), (path, '{"images":[1]}'),
            (path, "\ufeff{}"), (path, b'{"images":["\xff"]}'), (path, '{"images":["\\ud800"]}'), (path, ""), (path, "null"), (path, "[]"),
            (path, '{"images":[]}'), (path, '{"images":["' + "=" * 1000 + '"]}'), (path, '{"images":["data:"]} x'),
            ("/v1/tasks", '{"classes":[{"name":"a","images":[]},{"name":"b","images":[]}]}'),
            ("/v1/tasks", f'{{"classes":[{{"name":"a","images":["{image}"]}},{{"name":"a","images":["{image}"]}}]}}'),
            ("/v1/tasks", f'{{"keep":"no","classes":[{{"name":"a","images":["{image}"]}}]}}'),
            ("/v1/tasks", f'{{"model":"../../etc/passwd","classes":[{{"name":"a","images":["{image}"]}},{{"name":"b","images":["{image}"]}}]}}'),
        ]
        before = server.memory_mb()
        for target, text in refused:
            status, _, body = ask(target, text)
            attack.check(400 <= status < 500 and is_json_error(body), (target, text[:80], status, body[:200]))
        grown = server.memory_mb() - before
        attack.check(grown < 200, f"{grown:.0f} MB grown")
        # Names of every alphabet are names.
        names = ["größe", "字", "😀", "a\u0301", "\u202eabc", "..", "/", "\\", "%00", "'; drop", "<script>", " a ", "\ufffd"]
        for one, other in zip(names, names[1:]):
            task = {"name": one, "classes": [{"name": name, "images": [image]} for name in (one, other)]}
            status, _, body = ask("/v1/tasks?keep=false", json.dumps(task))
            attack.check(status in (201, 422) and (status == 201 or is_json_error(body)), (one, other, status, body[:200]))
        attack.check(server.ask("GET", "/health")[0] == 200, "the server is gone")
        attack.note(f"memory grew by {grown:.0f} MB")
    return attack


def strange_http(binary):
    """HTTP that is legal and rare, or nearly legal: an answer that fits, or the end of the connection; never two meanings."""
    attack = Attack("strange HTTP")
    with Server(binary) as server:
        path, here, image = server.task(), f"127.0.0.1:{server.port}", png(seed=1)
        head = f"POST {path} HTTP/1.1\r\nHost: {here}\r\nContent-Type: image/png\r\n".encode()
        chunked = b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(image) + image + b"\r\n0\r\n\r\n"
        length = b"Content-Length: %d\r\n" % len(image)
        cases = [
            ("HTTP/1.0", f"GET /health HTTP/1.0\r\nHost: {here}\r\n\r\n".encode(), (200,)),
            ("HTTP/1.0 without a host", b"GET /health HTTP/1.0\r\n\r\n", (200, 400, 403)),
            ("HTTP/0.9", b"GET /health\r\n\r\n", (400, 0)),
            ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 0)),
            ("chunks", head + chunked, (200,)),
            ("chunks with extensions", head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x;a=b\r\n" % len(image) + image + b"\r\n0\r\n\r\n", (200, 400)),
            ("a chunk's extension without end", head + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000, (400, 408, 431, 0)),
            ("trailers without end", head + chunked[:-2] + b"X: y\r\n" * 20_000, (200, 400, 431, 0)),
            ("chunked and a length", head + length + chunked, (200, 400)),
            ("chunked twice", head + b"Transfer-Encoding: chunked\r\n" + chunked, (400, 501, 0)),
            ("chunked, spelt otherwise", head + chunked.replace(b"chunked", b"xchunked"), (400, 501, 0)),
            ("chunked, then identity", head + chunked.replace(b"chunked", b"chunked, identity"), (400, 501, 0)),
            ("gzip, then chunked", head + chunked.replace(b"chunked", b"gzip, chunked"), (200, 400, 415, 501, 0)),
            ("a space before the colon", head.replace(b"Host:", b"Host :") + length + b"\r\n" + image, (400, 0)),
            ("a folded header", head + b"X: a\r\n b\r\n" + length + b"\r\n" + image, (400, 0)),
            ("a bare line end", head.replace(b"\r\n", b"\n") + length.replace(b"\r\n", b"\n") + b"\n" + image, (200, 400, 0)),
            ("a length with a sign", head + length.replace(b": ", b": +") + b"\r\n" + image, (400, 0)),
            ("a length with a comma", head + b"Content-Length: 1, 1\r\n\r\nx", (400, 0)),
            ("a length beyond numbers", head + b"Content-Length: 99999999999999999999999\r\n\r\nx", (400, 413, 0)),
            ("a zero byte in a header", head + b"X: a\0b\r\n" + length + b"\r\n" + image, (400, 0)),
            ("64 kB in one header", head + b"X: " + b"a" * 65_536 + b"\r\n" + length + b"\r\n" + image, (431, 400, 0)),
            ("10,000 headers", head + b"X: y\r\n" * 10_000 + length + b"\r\n" + image, (431, 400, 0)),
            ("an empty header name", head + b": y\r\n" + length + b"\r\n" + image, (400, 0)),
            ("encoded as gzip", head + b"Content-Encoding: gzip\r\n" + length + b"\r\n" + image, (200, 415)),
            ("a web socket", (f"GET /v1/tasks HTTP/1.1\r\nHost: {here}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode(), (200, 400, 426)),
            ("chunks under HTTP/1.0", head.replace(b"HTTP/1.1", b"HTTP/1.0") + chunked, (200, 400, 0)),
            ("HTTP/1.0 that stays", f"GET /health HTTP/1.0\r\nHost: {here}\r\nConnection: keep-alive\r\n\r\n".encode(), (200,)),
            ("two content types", head + b"Content-Type: application/json\r\n" + length + b"\r\n" + image, (200, 400, 415)),
            ("two tokens", f"GET /v1/tasks HTTP/1.1\r\nHost: {here}\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n".encode(), (200, 400, 401)),
            ("a setting 300 times", head.replace(b" HTTP/1.1", b"?" + b"level=0.9&" * 300 + b"level=0.9 HTTP/1.1") + length + b"\r\n" + image, (200, 400)),
            ("a range of an answer", f"GET /health HTTP/1.1\r\nHost: {here}\r\nRange: bytes=5-2\r\nIf-Range: x\r\n\r\n".encode(), (200, 416)),
            ("an upgrade", f"GET /health HTTP/1.1\r\nHost: {here}\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n".encode(), (200, 400)),
            ("CONNECT", f"CONNECT {here} HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (400, 403, 404, 405, 501)),
            ("TRACE", f"TRACE / HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (405, 501)),
            ("OPTIONS *", f"OPTIONS * HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (200, 204, 400, 404, 405)),
            ("a range", f"GET /openapi.json HTTP/1.1\r\nHost: {here}\r\nRange: bytes=0-{'0,' * 1000}1\r\n\r\n".encode(), (200, 416)),
            ("a fragment", f"GET /health#x HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (200, 400, 404)),
            ("two slashes", f"GET //health HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (400, 404)),
            ("an id of dots", f"GET /v1/tasks/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (404,)),
            ("an id with a zero", f"DELETE /v1/tasks/%00 HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (404,)),
            ("an id of stars", f"DELETE /v1/tasks/**************** HTTP/1.1\r\nHost: {here}\r\n\r\n".encode(), (400, 404)),
            ("an id in capitals", path.split("/")[3].upper().join(["DELETE /v1/tasks/", f" HTTP/1.1\r\nHost: {here}\r\n\r\n"]).encode(), (404,)),
            ("a boundary of 10 kB", head.replace(b"image/png", b"multipart/form-data; boundary=" + b"b" * 10_000) + length + b"\r\n" + image, (400,)),
            ("a boundary of nothing", head.replace(b"image/png", b"multipart/form-data; boundary=") + length + b"\r\n" + image, (400,)),
            ("a form of boundaries", head.replace(b"image/png", FORM.encode()) + b"Content-Length: 256000\r\n\r\n" + b"--XX\r\n\r\n" * 32_000, (400,)),
        ]
        for name, data, allowed in cases:
            with server.connect(15) as stream:
                try:
                    stream.sendall(data)
                except OSError:
                    pass
                status, answered, body = answer(stream)
            attack.check(status in allowed and (status < 400 or is_json_error(body) or not body), (name, status, answered[-60:], body[:100]))
        expect_continue(attack, server, head, image)
        # What is left of a refused body must not be taken for a request.
        inner = f"DELETE {path.rsplit('/', 1)[0]} HTTP/1.1\r\nHost: {here}\r\n\r\n".encode()
        for smuggled in (head + length + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
                         head + b"Content-Length: 0\r\nContent-Length: 70\r\n\r\n" + inner,
                         head.replace(b"image/png", b"text/plain") + b"Content-Length: %d\r\n\r\n" % len(inner) + inner):
            with server.connect(5) as stream:
                stream.sendall(smuggled)
                answer(stream)
            attack.check(server.ask("GET", path.rsplit("/", 1)[0])[0] in (200,), ("a smuggled DELETE was obeyed", smuggled[:200]))
        attack.check(server.ask("GET", "/health")[0] == 200, "the server is gone")
    return attack


def expect_continue(attack, server, head, image):
    """A client that waits to be told to go on is told; one that expects what nobody knows is answered."""
    with server.connect(10) as stream:
        stream.sendall(head + b"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n" % len(image))
        told = stream.recv(4096)
        attack.check(told.startswith(b"HTTP/1.1 100"), told[:60])
        stream.sendall(image)
        attack.check(answer(stream)[0] == 200, "no answer after 100 Continue")
    with server.connect(10) as stream:
        stream.sendall(head + b"Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n")
        told = stream.recv(4096)
        attack.check(b" 413 " in told, told[:60])


def slow_heads(binary, seconds=15):
    """Heads that come a byte at a time, and answers that are read a byte at a time."""
    attack = Attack("a byte at a time")
    with Server(binary, ["--read-timeout", "5"]) as server:
        path = server.task()
        data = request("POST", path, png(seed=1), "image/png")
        streams = [server.connect() for _ in range(300)]
        readers = [server.connect() for _ in range(100)]
        for stream in readers:
            stream.sendall(request("GET", "/openapi.json") * 20)
        closed = set()
        with Honest(server, path) as honest:
            end, at = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                for stream in streams:
                    try:
                        stream.send(data[at:at + 1])
                    except OSError:
                        closed.add(stream)
                for stream in readers:
                    stream.setblocking(False)
                    try:
                        stream.recv(1)
                    except OSError:
                        pass
                at += 1
                time.sleep(0.2)
        honest.report(attack)
        attack.check(len(closed) == len(streams), f"{len(streams) - len(closed)} of {len(streams)} slow heads are still open after {seconds} s")
        for stream in streams + readers:
            stream.close()
    return attack


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def jpeg_of_scans(count, width=5000, height=4900):
    """A progressive JPEG whose scans say nothing, each in 60 bytes, for every block of a large image."""
    part = lambda marker, data: b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
    blocks = -(-width // 8) * -(-height // 8)
    codes = lambda kind, symbol: part(0xc4, bytes([kind, 1]) + bytes(15) + bytes([symbol]))
    scan = lambda first, last, data: part(0xda, bytes([1, 1, 0, first, last, 0])) + data
    head = b"\xff\xd8" + part(0xdb, b"\0" + b"\1" * 64) + part(0xc2, struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0))
    runs = bytes(-(-15 * -(-blocks // 16_384) // 8))
    return head + codes(0, 0) + codes(0x10, 0xe0) + scan(0, 0, bytes(-(-blocks // 8))) + scan(1, 63, runs) * count + b"\xff\xd9"


def strange_images(binary):
    """Images within images, of no size, of many frames, with large notes and profiles: each is answered or refused, cheaply."""
    attack = Attack("strange images")
    whole = png(seed=1)
    ihdr, rest = whole[:33], whole[33:]
    bomb = zlib.compress(bytes(1 << 26), 9)
    size = lambda w, h, depth=8, colour=0: b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, 0)) + rest
    frame = b"!\xf9\x04\x00\x01\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00"
    gif = lambda w, h, frames: b"GIF89a" + struct.pack("<HH", w, h) + b"\x80\x00\x00\xff\xff\xff\x00\x00\x00" + frame * frames + b"\x3b"
    bmp = lambda w, h, bits=24: (b"BM" + struct.pack("<IHHI", 54 + 48, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, w, h, 1, bits, 0, 0, 0, 0, 0, 0) + bytes(48))
    entry = lambda tag, kind, count, value: struct.pack("<HHII", tag, kind, count, value)
    tiff = lambda *entries: b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries)) + b"".join(entries) + bytes(64)
    grey = lambda w, h: (entry(256, 4, 1, w), entry(257, 4, 1, h), entry(258, 3, 1, 8), entry(259, 3, 1, 1), entry(262, 3, 1, 1))
    app1 = b"\xff\xe1\xff\xff" + b"Exif\0\0II*\0" + bytes(65521)
    cases = {
        "a PNG of no width": size(0, 28), "a PNG of no height": size(28, 0), "a PNG beyond all": size(2**31 - 1, 2**31 - 1), "a PNG of depth 3": size(28, 28, 3),
        "a PNG with less data than it says": size(2000, 2000), "a profile that unfolds to 64 MB": ihdr + chunk(b"iCCP", b"x\0\0" + bomb) + rest,
        "100 notes that unfold to 64 MB": ihdr + chunk(b"zTXt", b"x\0\0" + bomb) * 100 + rest, "100 notes of text": ihdr + chunk(b"iTXt", b"x\0\1\0\0\0" + bomb) * 100 + rest,
        "pixels that unfold to 64 MB": ihdr + chunk(b"IDAT", bomb) + chunk(b"IEND", b""), "1 MB behind the end": whole + bytes(1 << 20),
        "100,000 empty pieces": ihdr + chunk(b"IDAT", b"") * 100_000 + rest, "an animation of 2^31 frames": ihdr + chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0)) + rest,
        "a note of 4 GB": ihdr + b"\xff\xff\xff\xfftEXt" + bytes(100), "a wrong checksum": whole[:-8] + bytes(8),
        "a GIF of 20,000 frames": gif(28, 28, 20_000), "a GIF of no size": gif(0, 0, 1), "a GIF of no frame": gif(28, 28, 0), "a GIF that ends early": gif(28, 28, 1)[:-4],
        "a BMP of negative width": bmp(-28, 28), "a BMP upside down": bmp(4, -4), "a BMP beyond all": bmp(2**31 - 1, 2**31 - 1), "a BMP of height -2^31": bmp(4, -2**31),
        "a BMP of 7 bits": bmp(4, 4, 7), "a TIFF of no size": tiff(*grey(0, 0)), "a TIFF beyond all": tiff(*grey(2**32 - 1, 2**32 - 1)),
        "a TIFF of 2^32 strips": tiff(*grey(28, 28), entry(273, 4, 2**32 - 1, 8), entry(278, 4, 1, 1), entry(279, 4, 2**32 - 1, 8)),
        "a TIFF that points at itself": tiff(*grey(28, 28))[:-4] + struct.pack("<I", 8), "a TIFF of 65,535 entries": b"II*\0\x08\0\0\0\xff\xff" + entry(256, 4, 1, 28) * 65_535,
        "a JPEG of notes alone": b"\xff\xd8" + app1 * 200, "a JPEG of no size": b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x00\x00\x00\x01\x01\x11\x00\xff\xd9",
        "a JPEG of 65,535 squared": b"\xff\xd8\xff\xc0\x00\x0b\x08\xff\xff\xff\xff\x01\x01\x11\x00\xff\xd9", "a WebP of nothing": b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\x12\0\0\0" + b"\xff" * 6,
        "a WebP of 16,384 squared": b"RIFF\x20\0\0\0WEBPVP8L\x10\0\0\0/\xff\xff\xff\x0f" + bytes(11), "a PNM of no size": b"P5 0 0 255\n", "a PNM beyond numbers": b"P5 99999999999999999999 1 255\n",
        "a PNM of comments": b"P5 #" + b"c" * (1 << 20) + b"\n1 1 255\n\0", "a PNM of 65,535 levels": b"P6 2 2 65535\n" + bytes(24), "a PAM of no depth": b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 0\nMAXVAL 255\nENDHDR\n",
        "a PNM of words": b"P2 5 5 255 " + b"9" * (1 << 20), "nothing": b"", "SVG": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "a zip": b"PK\x03\x04" + bytes(100),
        "a JPEG of one empty scan": jpeg_of_scans(1), "a JPEG of 50 scans": jpeg_of_scans(50), "a JPEG of 20,000 scans": jpeg_of_scans(20_000),
    }
    with Server(binary) as server:
        path = server.task()
        before = server.memory_mb()
        with Honest(server, path) as honest:
            for name, data in cases.items():
                start = time.monotonic()
                status, _, body = server.ask("POST", path, data, "image/png", timeout=60)
                took = time.monotonic() - start
                good = (status == 200 and "predictions" in json.loads(body)) or (status in (400, 413) and is_json_error(body))
                attack.check(good and took < 5, (name, status, f"{took:.1f} s", body[:150]))
        honest.report(attack)
        grown = server.memory_mb() - before
        attack.check(grown < 150 and server.alive(), f"{grown:.0f} MB grown")
        attack.note(f"memory grew by {grown:.0f} MB")
    return attack


def many_hands(binary):
    """One task asked, shown and deleted at the same time by many, again and again: an answer or 404, and nothing is left."""
    attack = Attack("asked and deleted at once")
    with Server(binary) as server:
        for _ in range(10):
            path = server.task(2)
            place = path.rsplit("/", 1)[0]
            deleted = []

            def one(i):
                method, target, body, kind = [("DELETE", place, b"", None), ("POST", path, png(seed=3), "image/png"), ("GET", place, b"", None)][i % 3]
                status, _, answered = server.ask(method, target, body, kind)
                attack.check(status in (200, 204, 404), (method, status, answered[:100]))
                deleted.append((method, status) == ("DELETE", 204))

            side_by_side(12, one)
            attack.check(sum(deleted) == 1, f"{sum(deleted)} deleted it")
        import os
        left = [name for name in os.listdir(server.state) if name.endswith(".task") or name.endswith("writing")]
        attack.check(not left, left)
    return attack


def leaves(binary, rounds=4):
    """A client that leaves within a fit of a network's task gives its core back at once."""
    attack = Attack("clients that leave within a fit")
    with Server(binary) as server:
        images = lambda first, count: form([(f"c{i % 2}", png(seed=i)) for i in range(first, first + count)], first)
        place = lambda: server.task_of(images(0, 490), keep=False)
        # How long it takes whoever stays. An eighth of it must be several ticks of the clock (10 ms), or leaving would show nothing.
        stays, leaves, more = place(), place(), images(490, 490)
        begun = cpu_seconds(server)
        status, _, body = server.ask("POST", f"{stays}/examples", more, FORM, timeout=120)
        whole = cpu_seconds(server) - begun
        attack.check(status == 200 and whole > 0.5, (status, f"the fit takes {whole:.1f} s", body[:200]))
        spent = 0.0
        for _ in range(rounds):
            with server.connect() as stream:
                begun, end = cpu_seconds(server), time.monotonic() + 60
                stream.sendall(request("POST", f"{leaves}/examples", more, FORM))
                while cpu_seconds(server) - begun < whole / 2 and time.monotonic() < end:
                    time.sleep(0.01)
                stream.setblocking(False)
                try:
                    early = stream.recv(100)
                except BlockingIOError:
                    early = None
            attack.check(early is None, f"the fit was over before anybody could leave: {early}")
            left = cpu_seconds(server)
            time.sleep(1.5 * whole)
            spent = max(spent, cpu_seconds(server) - left)
        attack.check(spent < whole / 8, f"{spent:.2f} s of cores after one left in the middle of {whole:.1f} s")
        attack.note(f"the fit takes {whole:.1f} s of cores; {spent:.2f} s at most after its client had left in the middle")
    return attack


ALL = [long_answers, unfolding, strange_http, slow_heads, strange_images, many_hands, leaves]
