// The web page in a real browser: light and dark, desktop and phone, by mouse and by keyboard, with a server that fails.
//   npm install playwright-core        (anywhere; run from that folder)
//   node scripts/web/test.mjs [FOLDER for screenshots]
// Needs the release binary (or SISKIN=path) and a Chromium (CHROMIUM=path, default /usr/bin/chromium). With
// PAGE=crates/serve/src the page is read from its files. `.ci/browser` installs what is missing.
import { mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { reports } from "./reports.mjs";
import { characters, draw, fromFiles, launch, photo, serve, shaky, visibleInk } from "./helpers.mjs";

const shots = process.argv[2] || "web-test";
mkdirSync(shots, { recursive: true });
const state = mkdtempSync(join(tmpdir(), "siskin-web-"));
let server = await serve(state);
const { url } = server;
const browser = await launch();
const desktop = { width: 1100, height: 900 }, phone = { width: 390, height: 844 };
const text = (page, id) => page.textContent("#" + id);
const cards = (page) => page.locator("#draw-cards canvas.pad");

async function open(colorScheme, viewport) {
  const context = await browser.newContext({ colorScheme, viewport, hasTouch: viewport === phone, deviceScaleFactor: 1, acceptDownloads: true });
  const page = await context.newPage(), trouble = [];
  page.on("console", (m) => m.type() === "error" && trouble.push(m.text()));
  page.on("pageerror", (e) => trouble.push(e.message));
  page.on("request", (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(url)) trouble.push("left the machine: " + r.url()); });
  await fromFiles(page, url);
  await page.goto(url);
  const look = `${colorScheme}-${viewport === phone ? "phone" : "desktop"}`;
  return { context, page, trouble, look, shot: (name) => page.screenshot({ path: join(shots, `${name}-${look}.png`), fullPage: true }) };
}
const narrow = async (page) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "the page is wider than the screen");
const answered = (page, wanted) => page.waitForFunction((w) => new RegExp(w).test(document.querySelector("#draw-answer .answer")?.textContent), wanted);

// The first screen, both examples, every tab.
async function look(colorScheme, viewport) {
  const { context, page, trouble, look, shot } = await open(colorScheme, viewport);
  await page.waitForSelector("#hello:not([hidden])");
  await shot("first");
  await page.click("#try-drawings");
  await answered(page, "^snail$");
  assert.match(await text(page, "draw-answer"), /sure/i);
  await page.evaluate(() => window.scrollTo(0, 0));
  for (const id of ["#query", "#draw-answer .answer"]) {
    // In one go: an answer is made anew with every stroke.
    const end = await page.evaluate((id) => document.querySelector(id).getBoundingClientRect().bottom, id);
    assert.ok(end <= viewport.height, `${look}: ${id} ends at ${end}`);
  }
  const other = colorScheme === "dark" ? "light" : "dark";
  for (const scheme of [other, colorScheme]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForTimeout(200);
    assert.ok(await visibleInk(cards(page).first()) > 0.01, `strokes are visible after a change to ${scheme}`);
  }
  await shot("draw");
  await page.click("#tab-images");
  await page.click("#try-photos");
  await page.waitForFunction(() => document.querySelectorAll("#results .answer").length === 5);
  assert.deepEqual((await page.$$eval("#results .answer", (all) => all.map((a) => a.textContent))).slice(0, 3), ["bricks", "grass", "gravel"]);
  assert.match(await text(page, "model-note"), /^mini-imagenet-conv4 was trained/, "the model of photos is chosen");
  await page.click("#results details summary");
  await shot("photos");
  await narrow(page);
  const track = await page.$eval("#results .track", (bar) => bar.getBoundingClientRect().width);
  assert.ok(track >= 90, `${look}: bars of ${track} pixels say little`);
  // Buttons with the names of classes do not widen a small screen either.
  await page.evaluate("groups.items[0].name.value = 'a class with a rather long name'; showPhotos()");
  await page.waitForFunction(() => document.getElementById("next").textContent.includes("a rather long name"));
  await narrow(page);
  await page.click("#tab-reliability");
  assert.equal(await page.locator("#reliability-body svg").count(), 4, "two diagrams a model");
  const cut = await page.$$eval("#reliability-body svg", (all) => all.flatMap((svg) => [...svg.querySelectorAll("text")].filter((t) => {
    const [a, b] = [t.getBoundingClientRect(), svg.getBoundingClientRect()];
    return a.left < b.left - 1 || a.right > b.right + 1;
  }).map((t) => t.textContent)));
  assert.deepEqual(cut, [], "words of the diagrams are cut off");
  const shown = await page.$$eval("#reliability-body th[scope=col]", (all) => all.map((t) => t.getBoundingClientRect().right <= window.innerWidth));
  assert.deepEqual(shown, Array(10).fill(true), "every column is on the screen");
  await shot("reliability");
  await narrow(page);
  assert.deepEqual(trouble, []);
  await context.close();
  console.log(`${look}: first screen, examples, reliability`);
}

// Drawings: right answers, undo, rename, remove, reload, download and open.
async function drawings() {
  const { context, page, trouble } = await open("light", desktop);
  for (let k = 3; k < 5; k++) await page.click("#add-character");
  for (let k = 0; k < 5; k++) await draw(page, cards(page).nth(k), characters[k]);
  for (let k = 0; k < 5; k++) {
    await page.click("#query-clear").catch(() => {});
    await draw(page, page.locator("#query"), shaky(characters[k], k + 1));
    await answered(page, `^(${"ABCDE"[k]}\\??|None of these)$`);
    const first = await page.textContent("#draw-answer .bars .name").catch(() => "");
    console.log(`drew ${"ABCDE"[k]}: ${await page.textContent("#draw-answer .answer")}`);
    assert.ok(first === "ABCDE"[k], "the first bar is the most probable class");
  }
  const ink = await visibleInk(cards(page).nth(1));
  await page.locator("#draw-cards .card").nth(1).getByText("Undo").click();
  assert.ok(await visibleInk(cards(page).nth(1)) < ink, "Undo takes a stroke away");
  await draw(page, cards(page).nth(1), [characters[1][2]]);

  await page.locator("#draw-cards input").nth(4).fill("corner");
  await page.locator("#draw-cards input").nth(4).press("Tab");
  await answered(page, "^corner");
  await page.getByLabel("Remove D", { exact: true }).click();
  assert.equal(await cards(page).count(), 4);
  await page.locator("#told").getByText("Undo").click();
  assert.equal(await cards(page).count(), 5);
  await page.getByLabel("Remove D", { exact: true }).click();
  await page.waitForTimeout(800);
  await page.reload();
  await answered(page, "^corner");
  assert.equal(await cards(page).count(), 4, "a reload keeps the work");

  const [file] = await Promise.all([page.waitForEvent("download"), page.locator("#draw .tools").getByText("Download task").click()]);
  const saved = await file.path(), body = readFileSync(saved);
  const made = await fetch(url + "/v1/tasks", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  assert.equal(made.status, 201, "a saved task is what the server takes");
  await page.locator("#draw .tools").getByText("Start over").click();
  await page.waitForFunction(() => !document.querySelector("#draw-answer .answer"));
  await page.locator("#draw .tools input[type=file]").setInputFiles({ name: "mine.json", mimeType: "application/json", buffer: body });
  await draw(page, page.locator("#query"), characters[0]);
  await answered(page, "^A");
  await page.locator("#draw .tools input[type=file]").setInputFiles({ name: "other.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await page.waitForFunction(() => /other\.json is no task/.test(document.getElementById("told").textContent));
  assert.deepEqual(trouble, []);
  await context.close();
}

// Photos: a bad file, the order of answers, a label that helps.
async function photos() {
  const { context, page, trouble } = await open("dark", phone);
  await page.click("#tab-images");
  const pickers = page.locator("#images input[type=file]");
  await pickers.nth(0).setInputFiles([await photo(page, 0, 0), await photo(page, 0, 5)]);
  await pickers.nth(1).setInputFiles([await photo(page, 1, 0)]);
  await page.locator("#ask-images + input").setInputFiles([await photo(page, 0, 9), await photo(page, 1, 6), { name: "broken.png", mimeType: "image/png", buffer: Buffer.from("no image") }]);
  await page.waitForFunction(() => document.querySelectorAll("#results .answer").length === 2);
  const order = () => page.$$eval("#results .result > img", (all) => all.map((i) => i.alt));
  assert.deepEqual(await order(), ["0-9.png", "1-6.png"]);
  await page.check("#newest");
  assert.deepEqual(await order(), ["1-6.png", "0-9.png"]);
  assert.match(await text(page, "results"), /broken\.png is no image/);
  await narrow(page);
  // A thing of no class is asked for; as a class of its own it helps: the rest is known with one class more.
  await page.locator("#images .tools").getByText("Start over").click();
  await page.click("#try-photos");
  await page.waitForFunction(() => document.querySelectorAll("#results .answer").length === 5);
  // Neither is brick, grass or gravel.
  assert.match(await page.getAttribute("#next img", "alt"), /^a (cup|cat)$/);
  await page.locator("#next").getByText("Something else").click();
  await page.waitForFunction(() => document.querySelectorAll("#results .answer").length === 4);
  assert.equal(await page.locator("#image-cards .card").count(), 4);
  assert.ok(await page.evaluate(() => document.activeElement.closest("#image-cards .card:last-child")), "the new class waits for its name");
  assert.match(await text(page, "results-said"), /Sure about . of 4 photos/);
  assert.deepEqual(trouble, []);
  await context.close();
}

// Only keys: tabs by arrows, an example by Enter, and a name for everything that can be used.
async function keyboard() {
  const { context, page, trouble } = await open("light", desktop);
  await page.waitForSelector("#hello:not([hidden])");
  await page.keyboard.press("Tab");
  const focused = () => page.evaluate(() => document.activeElement.id);
  assert.equal(await focused(), "tab-draw");
  for (const [key, tab] of [["ArrowRight", "images"], ["ArrowRight", "reliability"], ["ArrowRight", "draw"], ["ArrowLeft", "reliability"], ["Home", "draw"]]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), "tab-" + tab);
    assert.ok(await page.isVisible("#" + tab));
  }
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "try-drawings");
  await page.keyboard.press("Enter");
  await answered(page, "^snail$");
  await page.waitForFunction(() => /snail/.test(document.getElementById("spoken").textContent));
  const nameless = await page.$$eval("button, input:not([type=file]), canvas, select", (all) => all.filter((n) =>
    !(n.getAttribute("aria-label") || n.textContent.trim() || n.title || (n.labels && n.labels.length))).map((n) => n.outerHTML));
  assert.deepEqual(nameless, []);
  await page.locator("#query").focus();
  await page.keyboard.press("Delete");
  await page.waitForFunction(() => !document.querySelector("#draw-answer .answer"));
  assert.deepEqual(trouble, []);
  await context.close();
}

// A network that somebody added stands in the list and is told of as what it is.
async function networks() {
  const { context, page, trouble } = await open("light", desktop);
  await page.route("**/v1/models", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.models.push({ name: "mine", hash: "0", image: { size: 224, channels: 3 }, validation: [], added: true });
    await route.fulfill({ json: answer });
  });
  await page.reload();
  await page.waitForSelector("#model option[value=mine]", { state: "attached" });
  assert.equal(await text(page, "model").then((all) => all.includes("mine (added network)")), true);
  await page.click("#tab-reliability");
  const told = await text(page, "reliability-body");
  assert.match(told, /mineAn added network: how sure it may be is learned anew/);
  assert.doesNotMatch(told, /siskin export/);
  assert.deepEqual(trouble, []);
  await context.close();
}

// A server that forgets, is busy, dies and comes back.
async function failing() {
  const { context, page } = await open("light", desktop);
  await page.waitForSelector("#hello:not([hidden])");
  await page.click("#try-drawings");
  await answered(page, "^snail$");
  for (const { id } of (await (await fetch(url + "/v1/tasks")).json()).tasks) await fetch(url + "/v1/tasks/" + id, { method: "DELETE" });
  await page.click("#query-undo");
  await page.waitForFunction(() => document.querySelector("#draw-answer .answer") && !document.querySelector("#draw-answer .bad"));
  let busy = 2;
  await page.route("**/predict", (route) => busy-- > 0 ? route.fulfill({ status: 503, json: { error: "the server is busy" } }) : route.continue());
  await page.click("#query-undo");
  await page.waitForFunction(() => !document.querySelector("#draw-answer .answer") && !document.querySelector("#draw-answer .bad"));
  await server.stop();
  const place = () => page.locator("#query").evaluate((pad) => pad.getBoundingClientRect().top + window.scrollY);
  const before = await place();
  await draw(page, page.locator("#query"), characters[0]);
  await page.waitForSelector("#gone:not([hidden])");
  assert.equal(await place(), before, "the warning moves nothing under the pen");
  await page.screenshot({ path: join(shots, "gone.png") });
  server = await serve(state, Number(new URL(url).port));
  await page.waitForSelector("#gone", { state: "hidden" });
  await page.waitForSelector("#draw-answer .answer");
  await context.close();
}

try {
  for (const scheme of ["light", "dark"]) for (const viewport of [desktop, phone]) await look(scheme, viewport);
  for (const test of [drawings, photos, keyboard, networks, failing]) { await test(); console.log(`${test.name}: as it should be`); }
  await reports(browser, shots);
  console.log(`Screenshots are in ${shots}.`);
} finally {
  await browser.close();
  await server.stop();
  rmSync(state, { recursive: true, force: true });
}
