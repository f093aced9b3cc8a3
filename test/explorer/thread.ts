import { parentPort, workerData } from "node:worker_threads";

import { type Job, run } from "./jobs.ts";

// One thread does one job, and says what it found. The product logs every request, and there are some hundred thousand.
console.info = () => {};
console.error = () => {};

// A thread's port has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort!.postMessage(await run(workerData as Job));
// Attempts that crashed may have left timers.
process.exit();
