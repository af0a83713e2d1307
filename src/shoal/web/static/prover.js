// The worker that proves: Pyodide, python-flint, and the part of shoal that has no floating-point evaluator.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const folder = new URL("pyodide/", import.meta.url).href;

async function start() {
  const bytes = async (name) => {
    const response = await fetch(folder + name);
    if (!response.ok) throw new Error(`${name}: status ${response.status}`);
    return response.arrayBuffer();
  };
  const [python, wheel, shoal] = await Promise.all([loadPyodide({ indexURL: folder }), bytes("flint.whl"), bytes("shoal.zip")]);
  python.unpackArchive(wheel, "wheel");
  python.unpackArchive(shoal, "zip", { extractDir: "/shoal" });
  return python.runPython(`
import sys
sys.path.insert(0, "/shoal")
import json
from shoal.review.review_document import verdict
lambda text: json.dumps(verdict(text)[0])
`);
}

let ready = null;

self.onmessage = async ({ data: text, ports: [port] }) => {
  try {
    const verdict = await (ready ??= start());
    port.postMessage({ facts: verdict(text) });
  } catch (error) {
    port.postMessage({ error: String(error.message ?? error) });
  }
};
