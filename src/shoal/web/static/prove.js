// Proofs in this browser: a worker with Python and ball arithmetic, started when the first file comes.

let worker = null;

/** Return what the proof of a certificate comes to, as the question `verify` of the server. */
export function prove(text) {
  worker ??= new Worker(new URL("prover.js", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: { facts, error } }) => {
      port1.close();
      if (error === undefined) resolve(JSON.parse(facts));
      else reject(new Error(error));
    };
    worker.onerror = (event) => {
      worker = null;
      reject(new Error(event.message ?? "its files could not be loaded"));
    };
    worker.postMessage(text, [port2]);
  });
}
