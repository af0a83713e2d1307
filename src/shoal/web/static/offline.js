// Answers without a server, in place of ask.js: the strong clones for any randomizer, and proofs in the browser.
import { amplified, profile } from "./clones.js";
import { Refusal } from "./elements.js";
import { typed, up } from "./numbers.js";

const SERVER = 'needs a server: pip install "shoal-dp[cli,web]", then shoal web.';
const NEEDS = {
  calibrate: "Working backwards",
  plan: "The plan of a histogram",
  rounds: "Adding rounds up",
  sgd: "Accounting for a training",
  compare: "The comparison with all other bounds",
};
const LIMITS = {
  reports: [1, 1e12, "a whole number from 1 to 1e12", "10000, 10_000 or 1e4"],
  local_epsilon: [1e-3, 16, "from 0.001 to 16", "0.5 or 2"],
  delta: [1e-20, 0.5, "from 1e-20 to 0.5", "1e-6"],
};
const USUAL_DELTA = "1e-6";
const TURN = 12; // milliseconds of drawing, after which whatever else waits has its turn
let due = 0;
const files = {};

/** Return a file of this folder, once. */
const text = (name) => (files[name] ??= fetch(name).then((response) => response.text()));

/** Where all that is known of a bound can be read. */
export const more = () => "theorem.json";

/** Return the numbers of a question, or say which of them is none. */
function numbers(values) {
  return Object.entries(LIMITS).map(([name, [low, high, range, examples]]) => {
    const given = values[name] ?? "";
    const value = typed(given);
    if (Number.isNaN(value)) {
      const comma = given.includes(",") ? "; a comma is not a decimal point" : "";
      throw new Refusal(`${name} must be a number such as ${examples}, got ${given ? `"${given}"` : "nothing"}${comma}`, name);
    }
    if (!(value >= low && value <= high) || (name === "reports" && !Number.isInteger(value))) {
      throw new Refusal(`${name} must be ${range} on a page without a server, got ${given}`, name);
    }
    return value;
  });
}

const ANSWERS = {
  async amplify(values) {
    if (values.randomizer) throw new Refusal(`The exact guarantee of one mechanism ${SERVER}`, "randomizer");
    const [reports, local, delta] = numbers(values);
    const epsilon = amplified(reports, local, delta);
    const row = JSON.parse(await text("theorem.json"));
    return { epsilon, delta, reports, local_epsilon: local, epsilon_bracket: null, best_possible: null, amplified: epsilon < local, bound: row.name, theorem: row.citation, assumptions: row.assumptions };
  },

  async attack(values) {
    const [reports, local, delta] = numbers({ ...values, delta: values.delta || USUAL_DELTA });
    const [of, alarms] = [profile(reports, local), 0.01];
    // Every ε gives a bound: those around the one that was asked for are tried.
    const middle = Math.max(amplified(reports, local, delta), 1e-9);
    const tried = [0, local, ...Array.from({ length: 25 }, (_, i) => middle * 2 ** ((i - 18) / 3))].filter((epsilon) => epsilon <= local);
    const bounds = tried.flatMap((epsilon) => {
      const delta = of(epsilon);
      return [Math.exp(epsilon) * alarms + delta, 1 - Math.exp(-epsilon) * (1 - alarms - delta)];
    });
    return { false_alarms: alarms, success: Math.min(1, Math.min(...bounds) * (1 + 1e-12)) };
  },

  async explain() {
    return JSON.parse(await text("theorem.json"));
  },

  async curve({ against, as, ...values }) {
    const asked = numbers(values);
    const at = { reports: 0, delta: 2 }[against];
    const file = await text(`${against}.svg`);
    const style = /<style>.*?<\/style>/s.exec(file)?.[0] ?? ""; // for a file alone: the page has its own
    const chart = new DOMParser().parseFromString(file.replace(style, ""), "image/svg+xml").documentElement;
    const { left, right, top, bottom, xLow, xHigh, yLow, yHigh } = chart.dataset;
    const part = (value, low, high) => Math.log(value / low) / Math.log(high / low);
    const across = (x) => Number(left) + part(x, xLow, xHigh) * (right - left);
    const along = (y) => Number(bottom) + Math.min(Math.max(part(y, yLow, yHigh), 0), 1) * (top - bottom);
    const xs = Array.from({ length: 61 }, (_, i) => xLow * (xHigh / xLow) ** (i / 60));
    if (at === 0) xs.forEach((x, i) => (xs[i] = Math.round(x)));
    const ys = [];
    for (const x of xs) {
      if (performance.now() > due) { // a slider may be moving
        await new Promise((resolve) => setTimeout(resolve));
        due = performance.now() + TURN;
      }
      ys.push(amplified(...asked.map((value, i) => (i === at ? x : value))));
    }
    const answer = amplified(...asked);
    const line = chart.querySelector("path.shoal-line");
    const shown = xs.map((x, i) => [x, ys[i]]).filter(([, y]) => y > 0);
    line.setAttribute("d", shown.map(([x, y], i) => `${i ? "L" : "M"}${across(x).toFixed(1)} ${along(y).toFixed(1)}`).join(""));
    Object.assign(line.dataset, { xs: shown.map(([x]) => x).join(" "), ys: shown.map(([, y]) => y).join(" ") });
    const [x, y] = [across(asked[at]), along(answer)];
    const mark = chart.querySelector("circle.shoal-mark");
    mark.setAttribute("cx", x);
    mark.setAttribute("cy", y);
    Object.assign(mark.dataset, { x: asked[at], y: answer, text: `ε = ${up(answer, 3)}` });
    const label = chart.querySelector("text.shoal-mark");
    label.setAttribute("x", Math.min(x + 9, right - 70));
    label.setAttribute("y", Math.max(y - 8, Number(top) + 12));
    label.textContent = `ε = ${up(answer, 3)}`;
    const drawn = new XMLSerializer().serializeToString(chart);
    return as === "svg" ? drawn.replace(">", () => `>${style}`) : drawn;
  },

  async verify(_, body) {
    if (document.documentElement.dataset.proofs !== "yes") {
      throw new Refusal(
        "This folder has no Python in it. Check the file with shoal verify FILE, or write the folder with shoal web --static FOLDER --pyodide DIR.",
        null,
      );
    }
    const { prove } = await import("./prove.js");
    return prove(body).catch((error) => {
      throw new Refusal("Python did not start here. Check the file with shoal verify FILE.", null);
    });
  },
};

/** Return the answer to a question, or refuse what needs a server. */
export async function ask(question, values, body) {
  if (!Object.hasOwn(ANSWERS, question)) throw new Refusal(`${NEEDS[question] ?? "This"} ${SERVER}`, null);
  if (values.as !== "code") return ANSWERS[question](values, body);
  const { reports, local_epsilon: local, delta } = await ANSWERS.amplify(values);
  return {
    python: `import shoal\n\nprint(shoal.amplify(local_epsilon=${local}, reports=${reports}, bound="strong-clones").epsilon(${delta}))\n`,
    command: `shoal amplify --local-epsilon ${local} --reports ${reports} --delta ${delta} --bound strong-clones`,
  };
}
