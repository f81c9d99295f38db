// The work of a page: kept in the browser, saved to a file, read from one.
const WORK = 1;
function shelf(mode, act) {
  return new Promise((done, fail) => {
    const open = indexedDB.open("siskin", 1);
    open.onupgradeneeded = () => open.result.createObjectStore("work");
    open.onerror = () => fail(open.error);
    open.onsuccess = () => {
      const change = open.result.transaction("work", mode), request = act(change.objectStore("work"));
      change.oncomplete = () => { open.result.close(); done(request.result); };
      change.onerror = change.onabort = () => { open.result.close(); fail(change.error); };
    };
  });
}
let keeping, loaded = false;
function keepWork() {
  showHello();
  if (!loaded) return;
  clearTimeout(keeping);
  keeping = setTimeout(storeWork, 300);
}
async function storeWork() {
  clearTimeout(keeping);
  const work = { version: WORK, drawings: characters.data(), query: query.strokes, photos: groups.data(),
    asked: asked.map(({ name, image, skipped }) => ({ name, image, skipped })).filter((a) => a.image), model: $("model").value, newest: $("newest").checked };
  try {
    await shelf("readwrite", (s) => s.put(work, "work"));
    $("kept").textContent = "Your work is kept in this browser.";
  } catch (error) { $("kept").textContent = `This browser keeps nothing (${error && error.name}): a reload loses your work. Download the task to keep it.`; }
}
async function loadWork() {
  let work = null;
  try { work = await shelf("readonly", (s) => s.get("work")); } catch { /* Told when something is to be kept. */ }
  if (!work || work.version !== WORK) work = { drawings: [], query: [], photos: [], asked: [] };
  $("newest").checked = !!work.newest;
  wantedModel = work.model;
  asked.push(...work.asked);
  query.strokes = work.query;
  query.paint();
  characters.load(work.drawings, work.drawings.length ? 0 : 3);
  groups.load(work.photos, work.photos.length ? 0 : 2);
  loaded = true;
  showHello();
}

// A task file of the page is the body of POST /v1/tasks.
function saveFile(name, text, kind) {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
const tabsWork = {
  draw: { list: characters, task: drawTask, file: "drawings.json", least: 3, reset() { query.clear(); } },
  images: { list: groups, task: photoTask, file: "photos.json", least: 2, reset() { asked.splice(0); askPhotos(); } },
};
function download(tab) {
  const { list, task, file } = tabsWork[tab], classes = list.classes();
  if (classes.length < 2) return tell("There is no task yet: examples of two classes at least are needed.");
  saveFile(file, JSON.stringify({ name: file.replace(".json", ""), model: task.model(), classes }), "application/json");
  tell(`${file} has all examples. “Open task” reads it again; it is also what POST /v1/tasks takes.`);
}
async function openTask(tab, file) {
  const { list } = tabsWork[tab];
  try {
    const { classes, model } = JSON.parse(await file.text());
    const image = (text) => text.startsWith("data:image/") ? text : "data:image/*;base64," + text;
    const data = classes.map((c) => ({ name: c.name, examples: c.images.map((text, i) => ({ name: `${c.name} ${i + 1}`, image: image(text) })) }));
    const old = list.data();
    if (model && models.some((m) => m.name === model) && tab === "images") { $("model").value = model; showModelNote(); }
    list.load(data);
    tell(`${file.name}: ${data.length} classes.`, () => list.load(old));
  } catch { tell(`${file.name} is no task that this page has saved.`); }
}
function startOver(tab) {
  const { list, least, reset } = tabsWork[tab], old = list.data(), was = asked.slice(), strokes = query.strokes;
  list.load([], least);
  hint(tab, "");
  reset();
  tell("Everything on this tab was cleared.", () => {
    list.load(old);
    if (tab === "draw") query.set(strokes); else { asked.push(...was); askPhotos(); }
    keepWork();
  });
}
for (const tools of document.querySelectorAll(".tools[data-tab]")) {
  const { tab } = tools.dataset, picker = make("input", { type: "file", accept: ".json,application/json", hidden: true });
  picker.addEventListener("change", () => { if (picker.files[0]) openTask(tab, picker.files[0]); picker.value = ""; });
  tools.append(make("button", { textContent: "Download task", onclick: () => download(tab) }),
    make("button", { textContent: "Open task", onclick: () => picker.click() }),
    make("button", { textContent: "Start over", onclick: () => startOver(tab) }), picker);
}
