import { Counter } from "k6/metrics";

const exceptions = new Counter("exceptions");

/** Nobody threw. */
export const UNBROKEN = { exceptions: ["count==0"] };

/** k6 only logs what an iteration throws, and counts it as one like any other, so that a threshold has to notice it. */
export function counted<Data>(iteration: (data: Data) => Promise<void>) {
  return async (data: Data): Promise<void> => {
    try {
      await iteration(data);
    } catch (error) {
      exceptions.add(1);
      throw error;
    }
  };
}
