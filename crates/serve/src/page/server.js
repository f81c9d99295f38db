// The server's API, and a task that follows its examples.
let token = sessionStorage.getItem("siskin-token") || "";
function askToken() {
  const dialog = $("token");
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      token = $("token-text").value;
      sessionStorage.setItem("siskin-token", token);
      done();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

// While the server is gone the page says so and looks for it; once it is back, tasks are made anew.
const lives = [];
const pause = (ms) => new Promise((go) => setTimeout(go, ms));
async function serverGone() {
  if (!$("gone").hidden) return;
  $("gone").hidden = false;
  for (;;) {
    await pause(1500);
    try { if ((await fetch("/health")).ok) break; } catch { /* Still gone. */ }
  }
  $("gone").hidden = true;
  if (models.length === 0) loadModels();
  lives.forEach((live) => live.touch());
}
async function call(method, path, body) {
  for (let tries = 0; ; tries++) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (token) headers.Authorization = "Bearer " + token;
    let response;
    try {
      response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    } catch {
      serverGone();
      throw Object.assign(new Error("The server does not answer."), { gone: true });
    }
    if (response.status === 401) { await askToken(); continue; }
    if (response.status === 503 && tries < 3) { await pause(1000); continue; }
    if (response.status === 204) return null;
    const answer = await response.json().catch(() => ({ error: `The server answered with status ${response.status} and no words.` }));
    if (!response.ok || answer.error) throw Object.assign(new Error(sentence(answer.error || response.statusText)), { status: response.status });
    return answer;
  }
}
// The server's sentences begin small and end without a stop.
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// A task that follows its examples: made anew when they change, the old one forgotten. `classes()` gives names and
// images; the newest state wins, and at most one request of a kind is under way.
class LiveTask {
  constructor(classes, model, changed) {
    Object.assign(this, { classes, model, changed, task: null, stale: false, busy: false, waiting: [] });
    lives.push(this);
  }
  touch() { this.stale = true; clearTimeout(this.timer); this.timer = setTimeout(() => this.refresh(), 150); }
  async refresh() {
    clearTimeout(this.timer);
    if (this.busy || !this.stale) return;
    this.busy = true;
    this.stale = false;
    const old = this.task;
    try {
      const classes = this.classes();
      this.task = classes.length < 2 ? null
        : await call("POST", "/v1/tasks", { name: "web page", keep: false, model: this.model(), classes });
      this.changed(null);
    } catch (error) {
      this.task = null;
      this.changed(error);
    }
    if (old) call("DELETE", "/v1/tasks/" + old.id).catch(() => {});
    this.busy = false;
    if (this.stale) return this.refresh();
    this.waiting.splice(0).forEach((go) => go());
  }
  async ready() {
    if (this.stale && !this.busy) this.refresh();
    if (this.busy) await new Promise((go) => this.waiting.push(go));
    return this.task;
  }
  async predict(images, explain) {
    const answer = await this.ask("predict", { images, explain });
    return answer && answer.predictions;
  }
  // Which of some images to label next, and whether more labels would help.
  async suggest(images, count) { return this.ask("suggest", { images, count }); }
  async ask(what, body) {
    const ask = async () => {
      const task = await this.ready();
      return task && call("POST", `/v1/tasks/${task.id}/${what}`, body);
    };
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 404) throw error;
      // The server has forgotten the task (a restart, or too many others): make it anew.
      this.task = null;
      this.stale = true;
      return ask();
    }
  }
}
