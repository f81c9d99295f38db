"""Images that take more memory or time than their headers say. Each attack is bounded and talks to a server of its own on loopback."""

import struct
import zlib

from common import FORM, Attack, Honest, Server, form, is_json_error, png
from server import cpu_seconds, side_by_side


def gif(screen, frame):
    """A GIF whose frame may be larger than its screen, with codes for all its pixels."""
    pixels, bits, held, out = frame[0] * frame[1], 0, 0, bytearray()

    def put(code, size):
        nonlocal bits, held
        bits |= code << held
        held += size
        while held >= 8:
            out.append(bits & 255)
            bits >>= 8
            held -= 8

    put(4, 3)
    put(0, 3)
    size, following, done, length = 3, 6, 1, 1
    while done < pixels:
        if following < 4096:
            length += 1
            put(following, size)
            done, following = done + length, following + 1
            size += following == 1 << size and size < 12
        else:
            put(4095, 12)
            done += length
    put(5, size)
    if held:
        out.append(bits & 255)
    blocks = b"".join(bytes([len(out[i:i + 255])]) + bytes(out[i:i + 255]) for i in range(0, len(out), 255))
    return (b"GIF89a" + struct.pack("<HH", *screen) + b"\x80\0\0\xff\xff\xff\0\0\0," + struct.pack("<HHHH", 0, 0, *frame)
            + b"\0\x02" + blocks + b"\0;")


def zeros(megabytes):
    """So many megabytes of zeros, packed: the same packed megabyte again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x78\xda" + piece * megabytes + b"\3\0" + struct.pack(">I", (megabytes << 20) % 65521 << 16 | 1)


def png_with(name, content, megabytes):
    """A small PNG with one chunk more, whose packed content unfolds."""
    chunk = name + content + zeros(megabytes)
    base = png(seed=1)
    return base[:33] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + base[33:]


def png_and_more(megabytes):
    """A PNG of 4 x 4 whose pixels are followed by zeros, packed."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zeros(megabytes)) + chunk(b"IEND", b"")


def tiff(entries, data, extra=b""):
    """A TIFF of these tags; a value `data` or `extra` is where that lies."""
    at = 8 + 2 + 12 * len(entries) + 4
    places = {"extra": at, "data": at + len(extra)}
    packed = b"".join(struct.pack("<HHII", tag, kind, count, places.get(value, value)) for tag, kind, count, value in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + bytes(4) + extra + data


def tiff_tile(width, megabytes):
    """4 x 4 pixels in one tile of enormous width."""
    data = zeros(megabytes)
    return tiff([(256, 4, 1, 4), (257, 4, 1, 4), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1), (322, 4, 1, width),
                 (323, 4, 1, 16), (324, 4, 1, "data"), (325, 4, 1, len(data))], data)


def tiff_tag(count):
    """4 x 4 pixels, and a tag that claims so many values."""
    return tiff([(256, 4, 1, 4), (257, 4, 1, 4), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, count, 8), (277, 3, 1, 1),
                 (278, 4, 1, 4), (279, 4, count, 8)], bytes(100))


def tiff_jpeg(side):
    """4 x 4 pixels, by a JPEG of another size."""
    part = lambda marker, data: b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
    codes = lambda kind: part(0xc4, bytes([kind, 1]) + bytes(16))
    jpeg = (b"\xff\xd8" + part(0xdb, b"\0" + b"\1" * 64) + part(0xc0, struct.pack(">BHHB", 8, side, side, 3) + b"\1\x11\0\2\x11\0\3\x11\0")
            + codes(0) + codes(0x10) + part(0xda, b"\3\1\0\2\0\3\0\0\x3f\0") + bytes(64) + b"\xff\xd9")
    return tiff([(256, 4, 1, 4), (257, 4, 1, 4), (258, 3, 3, "extra"), (259, 3, 1, 7), (262, 3, 1, 2), (273, 4, 1, "data"), (277, 3, 1, 3),
                 (278, 4, 1, 4), (279, 4, 1, len(jpeg))], jpeg, struct.pack("<HHH", 8, 8, 8) + bytes(2))


def webp(side, data=600_000):
    """A canvas of 4 x 4 with a frame of another size."""
    frame = struct.pack("<I", 1 << 4 | (data & 0x7ffff) << 5)[:3] + b"\x9d\x01\x2a" + struct.pack("<HH", side, side) + bytes(data + 1000)
    chunk = lambda name, data: name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    body = b"WEBP" + chunk(b"VP8X", bytes(4) + b"\3\0\0\3\0\0") + chunk(b"VP8 ", frame)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def frames(binary):
    """Parts of images that are larger than the whole, four at a time, in 2 GB of address space."""
    attack = Attack("parts larger than their image, in 2 GB")
    images = {"gif": gif((10, 10), (16_300, 16_300)), "gif within bounds": gif((10, 10), (4_900, 4_900)), "webp": webp(16_383),
              "tiff tile": tiff_tile(1 << 28, 1024), "tiff jpeg": tiff_jpeg(16_000), "tiff tag": tiff_tag(60_000_000)}
    with Server(binary, memory=2_000 << 20) as server:
        path = server.task()
        most = server.memory_mb()
        with Honest(server, path) as honest:
            for name, image in images.items():

                def send(_):
                    status, _, body = server.ask("POST", path, image, "image/png", timeout=60)
                    attack.check(status == 200, (name, status, body[:200]))

                side_by_side(4, send)
                most = max(most, server.memory_mb() if server.alive() else 0)
        honest.report(attack)
        attack.check(server.alive(), "the server is gone")
        attack.note(f"memory {most:.0f} MB at most")
    return attack


def profiles(binary):
    """PNGs of a megabyte whose profiles and texts unfold to a gigabyte, five in a request."""
    attack = Attack("PNGs with profiles that unfold")
    cases = [png_with(b"iCCP", b"x\0\0", 1000), png_with(b"zTXt", b"x\0\0", 1000), png_with(b"iTXt", b"x\0\1\0\0\0", 1000), png_and_more(2000)]
    with Server(binary) as server:
        path = server.task()
        with Honest(server, path) as honest:
            for image in cases:

                def send(i):
                    target = path if i % 2 else "/v1/tasks?keep=false"
                    status, _, body = server.ask("POST", target, form([(str(k % 2), image) for k in range(5)]), FORM, timeout=60)
                    attack.check(status in (200, 201, 400), (status, body[:200]))

                side_by_side(4, send)
        honest.report(attack)
        attack.note(f"server {server.memory_mb():.0f} MB")
    return attack


def cheap_looking(binary, seconds=8):
    """Images that look cheap and are not: many in a request, two requests at a time, whose clients leave."""
    attack = Attack("images that look cheap")
    bodies = [form([("q", image)] * 100) for image in (tiff_jpeg(16_000), tiff_tile(1 << 26, 64), png_with(b"iCCP", b"x\0\0", 7))]
    with Server(binary) as server:
        path = server.task()
        with Honest(server, path) as honest:

            def send(i):
                status, _, body = server.ask("POST", path, bodies[i % len(bodies)], FORM, timeout=seconds)
                attack.check(status in (0, 200, 413, 503) and (status < 400 or is_json_error(body)), (status, body[:200]))

            side_by_side(6, send)
        honest.report(attack)
        spent = cpu_seconds(server)
        attack.note(f"{spent:.1f} s of cores, {server.memory_mb():.0f} MB")
    return attack


ALL = [frames, profiles, cheap_looking]
