// The panels: what is asked, and how the answer is said.
import { ask, more } from "./ask.js";
import { facts as listed, make, Refusal, table } from "./elements.js";
import { about, count, down, percent, up } from "./numbers.js";

const { categorical, numeric, panels } = await (await fetch("registry.json")).json();
const spaced = (name) => name.replaceAll("-", " ");
const MECHANISMS = [["", "anything with this ε₀"], ...[...categorical, ...numeric].map((name) => [name, spaced(name)])];

const people = { name: "reports", label: "People", hint: "reports that are shuffled together", low: 1, high: 1e12, whole: true, value: "10000" };
const local = { name: "local_epsilon", label: "ε₀", hint: "what one report keeps by itself", low: 0.01, high: 14, value: "1" };
const delta = { name: "delta", label: "δ", hint: "additive slack: P(event) ≤ e^ε·P′(event) + δ", low: 1e-20, high: 1e-2, value: "1e-6" };
const categories = { name: "categories", label: "Categories", low: 2, high: 1e6, whole: true, value: "16" };
const target = { name: "epsilon", label: "ε", hint: "what has to hold for everybody", low: 0.001, high: 10, value: "0.5" };
const roundCount = { name: "rounds", label: "Rounds", hint: "each with new reports of the same people", low: 1, high: 1e5, whole: true, value: "1" };
const randomizer = { name: "randomizer", label: "What each person runs", kind: "choice", options: MECHANISMS };
const isCategorical = ({ randomizer: name }) => categorical.includes(name);

/** The big number, with what it is. */
const number = (text, small) => make("p", { class: "number" }, text, " ", make("small", {}, small));
const words = (text) => make("p", { class: "words" }, text);
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** The theorem, with its statement and where its proof is, once somebody opens it. */
function theorem(facts) {
  const inside = make("div", {}, make("ul", {}, ...facts.assumptions.map((text) => make("li", {}, text))));
  const details = make("details", {}, make("summary", {}, `Why it is true: ${facts.theorem}`), inside);
  details.addEventListener("toggle", async () => {
    if (!details.open || details.dataset.asked) return;
    details.dataset.asked = "yes";
    try {
      const row = await ask("explain", { name: facts.bound });
      inside.prepend(
        make("p", {}, row.statement ?? ""),
        make("p", {}, `Proof: ${row.proof ?? row.citation}. `, make("a", { href: more(facts.bound) }, "All that is known of this bound")),
      );
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
    inside.querySelector("ul").before(make("p", {}, "It holds if:"));
  });
  return details;
}

const round = ({ reports, local_epsilon, randomizer, categories, sigma, delta }) => ({ reports, local_epsilon, randomizer, categories, sigma, delta });

const guarantee = {
  name: "guarantee",
  title: "Guarantee",
  about: "Everybody randomizes one report; a shuffler mixes them. What holds for each person against whoever sees the mixed reports?",
  question: "amplify",
  fields: [
    people,
    randomizer,
    { ...local, when: ({ randomizer: name }) => name !== "gaussian" },
    { ...categories, when: isCategorical },
    { name: "sigma", label: "σ", hint: "of Gaussian noise on values between 0 and 1", low: 0.1, high: 100, value: "1", when: ({ randomizer: name }) => name === "gaussian" },
    delta,
  ],
  answer(facts) {
    const alone = facts.local_epsilon;
    const better = alone && facts.epsilon ? alone / facts.epsilon : null;
    return [
      number(`ε = ${up(facts.epsilon)}`, `at δ = ${about(facts.delta, 6)}`),
      words(facts.amplified ? "holds for everybody once the reports are shuffled, if what is assumed (below) is so." : "No amplification: this ε is within a millionth of that of one report alone."),
      listed([
        ["exact value", facts.epsilon_bracket ? `between ${down(facts.epsilon_bracket[0], 9)} and ${up(facts.epsilon_bracket[1], 9)}` : null],
        ["best possible", facts.best_possible === null ? null : `${down(facts.best_possible)}: no bound can go below`],
        ["against one report", better && better > 1.05 ? `${about(better)} times better than its ε₀ = ${about(alone, 6)}` : null],
        ["without shuffling", alone ? `ε₀ = ${about(alone, 6)} is all that holds against the shuffler` : null],
      ]),
      theorem(facts),
    ];
  },
  more: [
    {
      ask: (values) => ({ question: "attack", ...round(values), delta: "" }),
      show: (facts) => [words(`An attacker who accepts ${percent(facts.false_alarms)} false alarms recognises a person's value with probability ${percent(facts.success)} at most.`)],
    },
    { ask: (values) => ({ question: "curve", against: "reports", ...round(values), limit: "true", as: "inline" }) },
    { ask: (values) => ({ question: "curve", against: "delta", ...round(values), limit: "true", as: "inline" }) },
    {
      ask: (values) => ({ question: "compare", ...round(values) }),
      show: (rows) => [
        table(
          "Every bound that applies",
          ["bound", "ε", "theorem"],
          rows.map((row, i) => ({
            cells: [row.bound, up(row.epsilon), (row.proven ? "" : "comparison only, no guarantee: ") + row.theorem],
            kind: row.proven ? i === 0 && "best" : "aside",
          })),
        ),
      ],
    },
  ],
};

const WANTED = { local_epsilon: "the largest ε₀", reports: "the fewest people", rounds: "the most rounds" };
const backwards = {
  name: "backwards",
  title: "Backwards",
  about: "You know the ε that has to hold. How much may each person tell, how many people do you need, or how often may you ask?",
  question: "calibrate",
  fields: [
    { name: "find", label: "Find", kind: "choice", options: Object.entries(WANTED), value: "local_epsilon" },
    target,
    delta,
    { ...people, when: ({ find }) => find !== "reports" },
    { ...local, when: ({ find }) => find !== "local_epsilon" },
    { ...roundCount, when: ({ find }) => find !== "rounds" },
    { ...randomizer, options: MECHANISMS.filter(([name]) => name !== "gaussian") },
    { ...categories, when: isCategorical },
  ],
  asked: ({ find, ...values }) => ({ ...values, ...(find !== "rounds" && values.rounds === "1" ? { rounds: "" } : {}) }),
  answer(facts, values) {
    const one = facts.one_round;
    const found = values.local_epsilon === undefined ? `ε₀ = ${down(one.local_epsilon)}` : values.reports === undefined ? plural(one.reports, "person", "people") : plural(facts.rounds, "round");
    return [
      number(found, `for ε ≤ ${facts.target} at δ = ${about(facts.delta, 6)}`),
      listed([
        ["guarantee", `ε = ${up(facts.epsilon)} at δ = ${about(facts.delta, 6)}`],
        ["one round", facts.rounds > 1 ? `ε = ${up(one.epsilon)}, ${plural(one.reports, "report")}, ε₀ = ${down(one.local_epsilon)}` : null],
        ["error of a rare category", facts.error === null ? null : `± ${about(facts.error)} in one round${facts.rounds > 1 ? `, ± ${about(facts.average_error)} of the average` : ""}`],
      ]),
      theorem(facts),
    ];
  },
  more: [
    {
      ask: ({ randomizer, categories, delta }, { one_round: { reports, local_epsilon } }) => ({
        question: "curve", against: "reports", reports, local_epsilon, randomizer, categories, delta, as: "inline",
      }),
    },
  ],
};

const histogram = {
  name: "histogram",
  title: "Histogram",
  about: "Which mechanism counts best how many people hold each value, under a central ε? The bars are an example, with the error that is to be expected.",
  question: "plan",
  fields: [
    { ...categories, value: "20" }, { ...people, value: "20000", low: 10 }, target, delta, roundCount,
    { name: "hidden", label: "Hidden by", kind: "choice", options: [["coins", "a local randomizer"], ["covers", "covers: a second message"], ["dummies", "dummies of the shuffler"], ["both", "covers or dummies"]], value: "coins" },
  ],
  asked({ hidden, ...values }) {
    if (hidden !== "coins" && hidden !== "dummies") values.messages = "2";
    return hidden === "dummies" || hidden === "both" ? { ...values, dummies: "true" } : values;
  },
  answer(facts) {
    const [best] = facts.choices;
    if (!best) return [words(facts.note ?? "No mechanism can do this.")];
    return [
      number(spaced(best.mechanism), best.local_epsilon === null ? "" : `ε₀ = ${down(best.local_epsilon)}`),
      facts.note && words(facts.note),
      listed([
        ["if shuffler and analyst collude", best.remains],
        ["it needs", best.needs],
        ["ℓ₂ error", `${about(best.error)} over all categories`],
        ["a rare category", `± ${about(best.category_error)} (one standard deviation)`],
        ["a frequent category", `± ${about(best.frequent_error)}`],
        ["average of all rounds", facts.rounds > 1 ? `± ${about(best.average_category_error)} a category` : null],
        ["a trusted curator", `${about(facts.central_error)} (ℓ₂)`],
        ["without a shuffler", `${about(facts.local_error)} (ℓ₂)`],
        ["messages a person", `${about(best.messages, 4)}${best.mechanism === "dummies" ? " with dummies" : ""}, of ` + plural(best.bits_per_report, "bit")],
      ]),
      table(
        "All mechanisms, the best first",
        ["mechanism", "ε₀", "ℓ₂ error", "rare category", "frequent", "bits"],
        facts.choices.map((row, i) => ({
          cells: [spaced(row.mechanism), row.local_epsilon === null ? "∞" : down(row.local_epsilon, 4), about(row.error), about(row.category_error), about(row.frequent_error), String(row.bits_per_report)],
          kind: i === 0 && "best",
        })),
      ),
    ];
  },
  more: [{ ask: (values) => ({ question: "plan", ...values, as: "inline" }) }],
};

const rounds = {
  name: "rounds",
  title: "Rounds",
  about: "The same people are asked again and again. What do all rounds have together, and when is a budget spent? A line a round, or a ledger file.",
  question: "rounds",
  fields: [
    { name: "source", label: "Rounds", kind: "choice", options: [["alike", "all alike"], ["table", "a table"], ["ledger", "a ledger"]], value: "alike" },
    { ...people, value: "1000000", when: ({ source }) => source === "alike" },
    { ...local, value: "2", when: ({ source }) => source === "alike" },
    { ...roundCount, value: "365", when: ({ source }) => source === "alike" },
    { name: "start", label: "First day", kind: "day", when: ({ source }) => source === "alike" },
    { name: "every", label: "One round per", kind: "choice", options: [["day", "day"], ["week", "week"], ["month", "month"]], value: "day", when: ({ source, start }) => source === "alike" && start },
    { name: "lines", label: "Table", kind: "lines", hint: "CSV: reports, local_epsilon and, if you like, rounds, randomizer, categories, date", value: "reports,local_epsilon,rounds\n100000,2,30\n50000,1,100", when: ({ source }) => source === "table" },
    { name: "ledger", label: "Ledger", kind: "lines", hint: "paste the file, or drop it here", when: ({ source }) => source === "ledger" },
    { ...target, label: "Budget ε", value: "0.2", when: ({ source }) => source !== "ledger" },
    { ...delta, when: ({ source }) => source !== "ledger" },
  ],
  asked({ source, lines, ledger, ...values }) {
    if (source === "table") return { ...values, body: lines };
    return source === "ledger" ? { body: ledger } : values;
  },
  answer(facts) {
    const budget = facts.budget;
    return [
      number(`ε = ${up(facts.epsilon)}`, `at δ = ${about(facts.delta, 6)}, ${plural(facts.rounds, "round")}`),
      listed([
        ["budget", budget ? `ε = ${about(budget.epsilon, 6)} at δ = ${about(budget.delta, 6)}` : null],
        ["lasts for", facts.affordable_rounds === null ? null : plural(facts.affordable_rounds, "round")],
        ["last day", facts.last_day],
      ]),
      facts.lasts && words(facts.lasts),
    ].filter(Boolean);
  },
  more: [{ ask: (values) => ({ question: "rounds", ...values, as: "inline" }) }],
};

const training = {
  name: "training",
  title: "Training",
  about: "Noisy SGD: how examples get into batches decides what ε is true. Accounting as if by Poisson sampling is not valid for shuffled data.",
  question: "sgd",
  fields: [
    { name: "examples", label: "Examples", low: 100, high: 1e8, whole: true, value: "60160" },
    { name: "batch_size", label: "Batch size", low: 1, high: 1e5, whole: true, value: "256" },
    { name: "epochs", label: "Epochs", low: 1, high: 1000, whole: true, value: "3" },
    { name: "known", label: "Given", kind: "choice", options: [["noise", "the noise"], ["epsilon", "the ε that has to hold"]], value: "noise" },
    { name: "noise_multiplier", label: "σ", hint: "noise on the sum of a batch, in units of the clip norm", low: 0.4, high: 100, value: "1", when: ({ known }) => known === "noise" },
    { ...target, value: "1", when: ({ known }) => known === "epsilon" },
    delta,
    { name: "adjacency", label: "Neighbours", kind: "choice", options: [["replace", "one example replaced"], ["zero-out", "one example zeroed"]], value: "replace" },
    { name: "sampling", label: "Sampler", kind: "choice", options: [["allocation", "allocation: one random step"], ["permutation", "permutation: shuffled"], ["poisson", "Poisson sampling"]], value: "allocation" },
  ],
  asked: ({ known, ...values }) => ({ ...values, poisson: "true" }),
  answer(facts) {
    const noise = facts.calibrated;
    return [
      number(noise ? `σ = ${up(facts.noise_multiplier)}` : `ε = ${up(facts.epsilon)}`, noise ? `for ε = ${up(facts.epsilon)} at δ = ${about(facts.delta, 6)}` : `at δ = ${about(facts.delta, 6)}`),
      listed([
        ["best possible", facts.best_possible === null ? null : `${down(facts.best_possible)}: no ε below holds for this run`],
        ["Poisson accounting", facts.poisson?.epsilon ? `would print ${up(facts.poisson.epsilon)} (one example ${facts.run.adjacency === "replace" ? "replaced" : "zeroed"})${facts.run.sampling === "poisson" ? "" : ", which is not valid here"}` : null],
        ["order known", facts.plain_epsilon ? `ε = ${up(facts.plain_epsilon)}, if it is known which example is where` : null],
      ]),
      table(
        noise ? "The noise that each sampler needs" : "The same run by each sampler",
        ["sampler", noise ? "σ" : "ε", "bound"],
        facts.samplers.map((row) => ({
          cells: [spaced(row.sampling), noise ? up(row.noise_multiplier, 5) : row.epsilon === null ? "–" : up(row.epsilon), row.bound],
          kind: row.recommended && "best",
        })),
      ),
      theorem(facts),
    ];
  },
  more: [{ ask: (values) => ({ question: "sgd", ...values, as: "inline" }) }],
};

const verify = {
  name: "verify",
  title: "Verify",
  about: "Drop a certificate or a review page here. It is proved again from its own numbers, in ball arithmetic, with none of the code that printed them.",
  question: null,
  fields: [],
  answer() {
    const verdict = make("div", { role: "status" });
    /** Show a state: proved, wrong or not checked. */
    const say = (state, word, text) => verdict.replaceChildren(make("p", { class: `verdict ${state}` }, make("strong", {}, word), text));
    const read = async (file) => {
      if (!file) return;
      verdict.replaceChildren(words(`Checking ${file.name} …`));
      try {
        const facts = await ask("verify", {}, await file.text());
        input.value = ""; // so that the same file can be chosen again
        if (facts.proved) say("proved", "Proved. ", facts.sentence.replace(/^proved: /, ""));
        else if (facts.checked) say("wrong", "Wrong. ", facts.wrong);
        else say("unchecked", "Not checked. ", facts.wrong);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        say("unchecked", "Not checked. ", error.message);
      }
    };
    const input = make("input", { type: "file", id: "file", accept: ".json,.html,application/json,text/html", onchange: () => read(input.files[0]) });
    const drop = make("div", { class: "drop" }, make("label", { for: "file" }, "Drop a file here, or choose one: "), input);
    for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragenter" || name === "dragover");
        if (name === "drop") read(event.dataTransfer.files[0]);
      });
    }
    return [drop, verdict];
  },
};

/** A panel that is made from the parameters of a question. */
const made = ({ chart, file, ...panel }) => ({
  ...panel,
  asked: ({ [file]: body, ...values }) => ({ ...values, body }),
  answer: (facts) => [listed(Object.entries(facts).filter(([, value]) => typeof value !== "object"))],
  more: chart ? [{ ask: (values) => ({ question: panel.question, ...values, as: "inline" }) }] : [],
});

export const PANELS = [guarantee, backwards, histogram, rounds, training, verify, ...panels.map(made)];
