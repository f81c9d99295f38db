// Tabs, the first screen, and what happens when the page opens and closes.
const tabs = [...document.querySelectorAll("[role=tab]")];
function showTab(name, focus = false) {
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  $("told").hidden = true;
  if (location.hash !== "#" + name) history.replaceState(null, "", "#" + name);
  showHello();
}
const shownTab = () => tabs.find((tab) => tab.getAttribute("aria-selected") === "true").getAttribute("aria-controls");
tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => showTab(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (e) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    showTab(tabs[to % tabs.length].getAttribute("aria-controls"), true);
  });
});
// The first screen stays until there is something to look at.
function showHello() {
  const work = tabsWork[shownTab()];
  $("hello").hidden = !work || !loaded || !work.list.empty;
}
$("try-drawings").onclick = exampleDrawings;
$("try-photos").onclick = examplePhotos;

window.addEventListener("pagehide", () => {
  for (const live of lives) {
    if (live.task) fetch("/v1/tasks/" + live.task.id, { method: "DELETE", keepalive: true, headers: token ? { Authorization: "Bearer " + token } : {} });
  }
});
document.addEventListener("visibilitychange", () => { if (document.hidden && loaded) storeWork(); });
let wantedModel;
function loadModels() {
  return call("GET", "/v1/models").then((answer) => {
    models = answer.models;
    const any = answer.chosen_by_looks ? [make("option", { value: "", textContent: "chosen by what the photos look like" })] : [];
    $("model").replaceChildren(...any, ...models.map((m) => make("option", { value: m.name, textContent: m.added ? `${m.name} (added network)` : m.name })));
    if (models.some((m) => m.name === wantedModel)) $("model").value = wantedModel;
    $("model-row").hidden = models.length < 2;
    showModelNote();
    showReliability();
  }).catch((error) => { $("reliability-body").textContent = error.message; });
}
if (tabs.some((tab) => "#" + tab.getAttribute("aria-controls") === location.hash)) showTab(location.hash.slice(1));
loadWork().then(loadModels);
