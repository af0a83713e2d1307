// One job of a kind is under way at a time, and only the newest waits: none queue.

/** Return a function that runs this job with its newest argument; what came in between is left out. */
export function newest(job) {
  let [busy, waiting] = [false, null];
  return async function run(argument) {
    waiting = { argument };
    if (busy) return;
    busy = true;
    try {
      while (waiting) {
        const { argument: current } = waiting;
        waiting = null;
        await job(current, () => waiting === null);
      }
    } finally {
      busy = false;
    }
  };
}
