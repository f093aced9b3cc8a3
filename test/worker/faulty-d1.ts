import { env } from "cloudflare:workers";

import { interceptD1 } from "../../src/d1.ts";

/** What happens to one message to D1. */
export type Fault = <Result>(send: () => Promise<Result>) => Promise<Result>;

export const passes: Fault = (send) => send();

/** It was carried out, and nobody hears of it. */
export const answerLost: Fault = async (send) => {
  await send();
  throw new Error("D1_ERROR: Network connection lost.");
};

/** It never arrived. */
export const callLost: Fault = () => {
  throw new Error("D1_ERROR: Network connection lost.");
};

/** D1 turned it away. */
export const overloaded: Fault = () => {
  throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
};

/** Parks a message until it is let go, and tells when it has come that far. */
export function gate() {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const fault: Fault = async (send) => {
    reached.resolve();
    await opened.promise;
    return send();
  };
  return { fault, reached: reached.promise, open: opened.resolve };
}

/** Hangs up on the sender at once and carries the message out only when it is let go: a write from the past. */
export function delayed() {
  const opened = Promise.withResolvers<void>();
  const landed = Promise.withResolvers<"carried out" | "refused">();
  const fault: Fault = async (send) => {
    void opened.promise.then(send).then(
      () => landed.resolve("carried out"),
      () => landed.resolve("refused"),
    );
    throw new Error("D1_ERROR: Network connection lost.");
  };
  return {
    fault,
    land: () => {
      opened.resolve();
      return landed.promise;
    },
  };
}

/** Lets every message wait a little, before it is sent and after, as a seed has it. */
export function jitter(random: () => number): Fault {
  const pause = () => new Promise((resolve) => setTimeout(resolve, Math.floor(random() * 4)));
  return async (send) => {
    await pause();
    const result = await send();
    await pause();
    return result;
  };
}

/**
 * The real D1, whose next messages meet the given faults, in order; all later ones pass, or meet `always`.
 */
export function faultyD1({ always = passes }: { always?: Fault } = {}) {
  const script: Fault[] = [];
  const sent: { rowsRead: number; rowsWritten: number; statements: number }[] = [];
  const DB = interceptD1(env.DB, async (send) => {
    const result = await (script.shift() ?? always)(send);
    const results = (Array.isArray(result) ? result : [result]) as Partial<D1Result>[];
    const rowsWritten = results.reduce((sum, { meta }) => sum + (meta?.rows_written ?? 0), 0);
    const rowsRead = results.reduce((sum, { meta }) => sum + (meta?.rows_read ?? 0), 0);
    sent.push({ rowsRead, rowsWritten, statements: results.length });
    return result;
  });
  return {
    DB,
    /** What has been carried out since the last call. */
    take: () => sent.splice(0),
    next: (...faults: Fault[]) => void script.push(...faults),
  };
}
