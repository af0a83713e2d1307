// The page: one tab a question, the question in the link.
import { make } from "./elements.js";
import { Panel } from "./panel.js";
import { PANELS } from "./panels.js";

const tabs = document.getElementById("tabs");
const panels = PANELS.map((description) => new Panel(description, remember));
let current = null;

for (const panel of panels) {
  panel.tab = make(
    "button",
    { type: "button", role: "tab", id: `tab-${panel.name}`, "aria-controls": panel.name, "aria-selected": "false", tabindex: "-1", onclick: () => open(panel, panel.state) },
    panel.title,
  );
  tabs.append(panel.tab);
  document.getElementById("panels").append(panel.element);
}

tabs.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -panels.indexOf(current), End: panels.length - 1 - panels.indexOf(current) }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const next = panels[(panels.indexOf(current) + step + panels.length) % panels.length];
  open(next, next.state);
  next.tab.focus();
});

/** Show a panel, with its fields as this text has them. */
function open(panel, state) {
  current = panel;
  for (const one of panels) {
    const shown = one === panel;
    one.element.hidden = !shown;
    one.tab.setAttribute("aria-selected", String(shown));
    one.tab.tabIndex = shown ? 0 : -1;
  }
  panel.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${panel.title} · shoal`;
  panel.state = state;
}

/** Keep the question in the link, without a step in the history for every move of a slider. */
function remember(panel) {
  if (panel !== current) return;
  const state = panel.state;
  history.replaceState(null, "", `#${panel.name}${state ? `?${state}` : ""}`);
}

function follow() {
  const [name, state = ""] = location.hash.slice(1).split(/\?(.*)/s);
  open(panels.find((panel) => panel.name === name) ?? panels[0], state);
}

addEventListener("hashchange", follow);
follow();
