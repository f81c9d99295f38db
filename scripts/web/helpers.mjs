// A server, a browser, and a hand that draws.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
export const binary = process.env.SISKIN || join(process.env.CARGO_TARGET_DIR || "target", "release/siskin");

export function serve(state, port = 0) {
  const server = spawn(binary, ["serve", "--port", String(port), "--state", state], { stdio: ["ignore", "pipe", "inherit"] });
  const url = new Promise((found, fail) => {
    let text = "";
    server.stdout.on("data", (data) => { text += data; const m = text.match(/http:\/\/\S+/); if (m) found(m[0]); });
    server.on("exit", () => fail(new Error("the server did not start")));
  });
  const stop = () => new Promise((done) => { server.on("exit", done); server.kill("SIGKILL"); });
  return url.then((url) => ({ url, stop }));
}

export function launch() {
  const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: flags });
}

// The page as its files are now, where PAGE names crates/serve/src: no build is needed while it is being changed.
export async function fromFiles(page, url) {
  const folder = process.env.PAGE;
  if (!folder) return;
  const read = (name) => readFileSync(join(folder, name), "utf8");
  const scripts = [...read("page.rs").matchAll(/include_str!\("(page\/\w+\.js)"\)/g)].map((m) => read(m[1])).join("");
  const body = read("page/index.html").replace("{style}", () => read("page/style.css")).replace("{script}", () => scripts);
  await page.route(url + "/", (route) => route.fulfill({ contentType: "text/html", body }));
}

// Five invented characters, as strokes in a unit square, and a hand that is never quite the same.
export const characters = [
  [[[.2, .2], [.8, .2], [.5, .8], [.2, .2]]],
  [[[.5, .1], [.5, .9]], [[.2, .35], [.8, .35]], [[.3, .7], [.7, .7]]],
  [Array.from({ length: 25 }, (_, i) => [.5 + .35 * Math.cos(i / 24 * 6.283), .5 + .35 * Math.sin(i / 24 * 6.283)]), [[.5, .5], [.85, .9]]],
  [[[.2, .8], [.35, .2], [.5, .8], [.65, .2], [.8, .8]]],
  [[[.25, .15], [.25, .85], [.75, .85]], [[.55, .2], [.75, .45]]],
];
export const shaky = (strokes, seed) => strokes.map((stroke) => stroke.map(([x, y], i) =>
  [.92 * x + .05 + .02 * Math.sin(seed * 7 + i * 3), .95 * y + .02 + .02 * Math.cos(seed * 5 + i * 2)]));

export async function draw(page, canvas, strokes) {
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  for (const stroke of strokes) {
    const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
    await page.mouse.move(...at(stroke[0]));
    await page.mouse.down();
    for (const point of stroke.slice(1)) await page.mouse.move(...at(point), { steps: 6 });
    await page.mouse.up();
  }
}

// A plain picture of a class: stripes of one direction.
export async function photo(page, kind, seed) {
  const data = await page.evaluate(([kind, seed]) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 300, height: 220 }), g = canvas.getContext("2d");
    g.fillStyle = "#fff"; g.fillRect(0, 0, 300, 220);
    g.fillStyle = "#222";
    for (let i = 0; i < 9; i++) kind ? g.fillRect(0, i * 26 + seed, 300, 9) : g.fillRect(i * 36 + seed, 0, 12, 220);
    return canvas.toDataURL("image/png").split(",")[1];
  }, [kind, seed]);
  return { name: `${kind}-${seed}.png`, mimeType: "image/png", buffer: Buffer.from(data, "base64") };
}

// The share of a canvas's pixels that differ much from the colour behind it, in grey levels.
export const visibleInk = (canvas) => canvas.evaluate((node) => {
  const grey = (r, g, b) => (r + g + b) / 3;
  const behind = grey(...getComputedStyle(node).backgroundColor.match(/\d+/g).map(Number));
  const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
  let ink = 0;
  for (let i = 0; i < data.length; i += 4) ink += data[i + 3] > 128 && Math.abs(grey(data[i], data[i + 1], data[i + 2]) - behind) > 100;
  return ink / (data.length / 4);
});
