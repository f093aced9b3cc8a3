import type { Answer } from "../demo-shop.ts";
import type { Client } from "./client.ts";
import { type Errand, tellStory } from "./workload.ts";

/**
 * Lets so many clients live one story after another.
 *
 * @returns what makes them stop: it resolves once the last of them has its answer.
 */
export function startCrowd(client: Client, { seed, size }: { seed: number; size: number }) {
  const over = new AbortController();
  const { signal } = over;
  let stories = 0;

  async function live(): Promise<void> {
    while (!signal.aborted) {
      const story = tellStory({ seed, number: ++stories });
      let chapter = story.next();
      while (!chapter.done && !signal.aborted) {
        chapter = story.next(await Promise.all(chapter.value.map(run)));
      }
    }
  }

  /** The answer of whoever hears one first. */
  async function run({ senders, tries, ...request }: Errand): Promise<Answer | undefined> {
    const answers = await Promise.all(
      Array.from({ length: senders }, (_, i) =>
        client.sendUntilDecided(request, { client: `${request.key} ${i}`, tries, signal }),
      ),
    );
    return answers.find((answer) => answer !== undefined);
  }

  const lives = Promise.all(Array.from({ length: size }, live));
  return async function stop(): Promise<void> {
    over.abort();
    await lives;
  };
}
