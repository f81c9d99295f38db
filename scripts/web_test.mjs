// The web page in a real browser: draws, drops photos, looks at the reliability, in light and dark, wide and on a phone.
//   npm install playwright-core        (anywhere; then NODE_PATH or run from that folder)
//   node scripts/web_test.mjs [FOLDER for screenshots]
// Needs the release binary (or SISKIN=path) and a Chromium (CHROMIUM=path, default /usr/bin/chromium).
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdtempSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const require = createRequire(join(process.cwd(), "x.js"));
const { chromium } = require("playwright-core");
const binary = process.env.SISKIN || join(process.env.CARGO_TARGET_DIR || "target", "release/siskin");
const shots = process.argv[2] || "web-test";
mkdirSync(shots, { recursive: true });
const state = mkdtempSync(join(tmpdir(), "siskin-web-"));
const server = spawn(binary, ["serve", "--port", "0", "--state", state], { stdio: ["ignore", "pipe", "inherit"] });
const url = await new Promise((found, fail) => {
  let text = "";
  server.stdout.on("data", (data) => { text += data; const m = text.match(/http:\/\/\S+/); if (m) found(m[0]); });
  server.on("exit", () => fail(new Error("the server did not start")));
});

// Five invented characters, as strokes in a unit square, and a hand that is never quite the same.
const characters = [
  [[[.2, .2], [.8, .2], [.5, .8], [.2, .2]]],
  [[[.5, .1], [.5, .9]], [[.2, .35], [.8, .35]], [[.3, .7], [.7, .7]]],
  [Array.from({ length: 25 }, (_, i) => [.5 + .35 * Math.cos(i / 24 * 6.283), .5 + .35 * Math.sin(i / 24 * 6.283)]), [[.5, .5], [.85, .9]]],
  [[[.2, .8], [.35, .2], [.5, .8], [.65, .2], [.8, .8]]],
  [[[.25, .15], [.25, .85], [.75, .85]], [[.55, .2], [.75, .45]]],
];
const shaky = (strokes, seed) => strokes.map((stroke) => stroke.map(([x, y], i) =>
  [.92 * x + .05 + .02 * Math.sin(seed * 7 + i * 3), .95 * y + .02 + .02 * Math.cos(seed * 5 + i * 2)]));
async function draw(page, canvas, strokes) {
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
// A plain picture of a class: coloured stripes of one direction.
const photo = (page, kind, seed) => page.evaluate(([kind, seed]) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 300, height: 220 }), g = canvas.getContext("2d");
  g.fillStyle = "#fff"; g.fillRect(0, 0, 300, 220);
  g.fillStyle = "#222";
  for (let i = 0; i < 9; i++) kind ? g.fillRect(0, i * 26 + seed, 300, 9) : g.fillRect(i * 36 + seed, 0, 12, 220);
  return canvas.toDataURL("image/png").split(",")[1];
}, [kind, seed]);

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: flags });
try {
  const looks = [["light", { width: 1100, height: 900 }, false], ["dark", { width: 390, height: 844 }, true]];
  for (const [colorScheme, viewport, hasTouch] of looks) {
    const context = await browser.newContext({ colorScheme, viewport, hasTouch, deviceScaleFactor: 1 });
    const page = await context.newPage();
    const trouble = [];
    page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
    page.on("pageerror", (e) => trouble.push(e.message));
    page.on("request", (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(url)) trouble.push("left the machine: " + r.url()); });
    await page.goto(url);
    const shot = (name) => page.screenshot({ path: join(shots, `${name}-${colorScheme}.png`), fullPage: true });

    const pads = page.locator("#draw-cards canvas.pad");
    for (let k = 0; k < 5; k++) await draw(page, pads.nth(k), characters[k]);
    let right = 0;
    for (let k = 0; k < 5; k++) {
      await page.click("#query-clear");
      await draw(page, page.locator("#query"), shaky(characters[k], k + 1));
      const letter = "ABCDE"[k];
      await page.waitForFunction(() => /%/.test(document.getElementById("draw-answer").textContent) || /none/.test(document.getElementById("draw-answer").textContent));
      await page.waitForTimeout(600);
      const bars = await page.$$eval("#draw-bars .value", (all) => all.map((v) => v.textContent));
      const best = bars.map((b) => parseFloat(b.replace(">", ""))).reduce((b, v, i, a) => (v > a[b] ? i : b), 0);
      right += "ABCDE"[best] === letter;
      console.log(`${colorScheme}: drew ${letter}, answer “${await page.textContent("#draw-answer")}”, ${bars.join(" ")}`);
    }
    assert.equal(right, 5, "five drawings, five right answers");
    await shot("draw");

    // A server that has forgotten the task (restarted, or too many others): the page makes it anew.
    const before = trouble.length;
    for (const { id } of (await (await fetch(url + "/v1/tasks")).json()).tasks) await fetch(url + "/v1/tasks/" + id, { method: "DELETE" });
    await page.click("#query-clear");
    await draw(page, page.locator("#query"), characters[1]);
    await page.waitForFunction(() => /^B|none/.test(document.getElementById("draw-answer").textContent));
    // The browser itself notes the 404; nothing else may be wrong.
    assert.ok(trouble.splice(before).every((t) => t.includes("404")), "more than the one 404");

    await page.click("#tab-images");
    const pickers = page.locator("#images input[type=file]");
    const file = async (kind, seed) => ({ name: `${kind}-${seed}.png`, mimeType: "image/png", buffer: Buffer.from(await photo(page, kind, seed), "base64") });
    await pickers.nth(0).setInputFiles([await file(0, 0), await file(0, 5)]);
    await pickers.nth(1).setInputFiles([await file(1, 0)]);
    await pickers.nth(2).setInputFiles([await file(0, 9), await file(1, 6), { name: "broken.png", mimeType: "image/png", buffer: Buffer.from("no image") }]);
    await page.waitForFunction(() => document.querySelectorAll("#results .result .answer").length === 2);
    const said = await page.$$eval("#results .answer", (all) => all.map((a) => a.textContent));
    console.log(`${colorScheme}: photos “${said.join("”, “")}”`);
    assert.match(await page.textContent("#results"), /broken\.png/);
    await shot("images");

    await page.click("#tab-reliability");
    assert.equal(await page.locator("#reliability-body svg").count(), 2);
    await shot("reliability");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.ok(!wide, "the page is wider than the screen");
    assert.deepEqual(trouble, []);
    await context.close();
  }
  await new Promise((done) => setTimeout(done, 500));
  const left = await (await fetch(url + "/v1/tasks")).json();
  console.log(`Tasks left behind by the closed pages: ${left.tasks.length}. Screenshots are in ${shots}.`);
} finally {
  await browser.close();
  server.kill();
  rmSync(state, { recursive: true, force: true });
}
