// The pages that commands write, in a real browser: light and dark, desktop, phone and paper.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { binary } from "./helpers.mjs";

const CONFIG = `
data.train = "glyphs"
[episode]
query = 5
[train]
episodes = 40
validate_every = 20
validate_episodes = 10
[test]
groups = 1
episodes = 20
`;

export async function reports(browser, shots) {
  const folder = mkdtempSync(join(tmpdir(), "siskin-reports-"));
  const run = (...args) => execFileSync(binary, args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, SISKIN_CACHE: join(folder, "cache") } });
  try {
    writeFileSync(join(folder, "small.toml"), CONFIG);
    for (const name of ["square", "disc"]) {
      execFileSync("mkdir", ["-p", join(folder, "shapes", name)]);
      for (let i = 0; i < 2; i++) {
        const inside = (x, y) => name === "disc" ? (x - 20 - i) ** 2 + (y - 20) ** 2 < 120 : Math.abs(x - 20 + i) < 9 && Math.abs(y - 20) < 9;
        const pixels = Array.from({ length: 1600 }, (_, k) => inside(k % 40, Math.floor(k / 40)) ? 0 : 255);
        writeFileSync(join(folder, "shapes", name, `${i}.pgm`), `P2 40 40 255 ${pixels.join(" ")}\n`);
      }
    }
    run("train", "small.toml", "--out", "run");
    await look(browser, shots, "train", join(folder, "run/report.html"));
    run("test", "run");
    await look(browser, shots, "test", join(folder, "run/report.html"));
    run("calibrate", "run");
    await look(browser, shots, "calibrate", join(folder, "run/report.html"));
    run("compare", "small.toml", "--methods", "dkt,cdkt", "--out", "compared");
    await look(browser, shots, "compare", join(folder, "compared/report.html"));
    run("adapt", "shapes");
    await look(browser, shots, "adapt", join(folder, "shapes.report.html"));
  } finally { rmSync(folder, { recursive: true, force: true }); }
}

async function look(browser, shots, name, file) {
  for (const colorScheme of ["light", "dark"]) for (const width of [1100, 390]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
    const page = await context.newPage(), trouble = [];
    page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
    page.on("request", (r) => { if (!/^(file|data):/.test(r.url())) trouble.push("asked for " + r.url()); });
    await page.goto("file://" + file);
    const place = `${name}, ${colorScheme}, ${width} pixels`;
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${place}: wider than the screen`);
    const cut = await page.$$eval(width > 400 ? "figure, .scroll" : "figure", (all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length);
    assert.equal(cut, 0, `${place}: charts or tables are cut off`);
    // Letters of charts are to be read: not smaller than 8 pixels, whatever the width.
    const small = await page.$$eval("figure svg text", (all) => all.map((t) => [t.textContent, t.getBoundingClientRect().height]).filter(([words, h]) => words.trim() && h < 8));
    assert.deepEqual(small, [], `${place}: letters too small`);
    const [ink, paper] = await page.evaluate(() => [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor].map((c) => c.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)));
    assert.ok(Math.abs(ink - paper) > 400 && (ink > paper) === (colorScheme === "dark"), `${place}: ${ink} on ${paper}`);
    await page.screenshot({ path: join(shots, `report-${name}-${colorScheme}-${width}.png`), fullPage: true });
    // Paper is light.
    await page.emulateMedia({ media: "print", colorScheme });
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)", `${place}: printed`);
    assert.deepEqual(trouble, []);
    await context.close();
  }
  console.log(`report of ${name}: light and dark, desktop, phone and paper`);
}
