import {
  LOCAL_OPERATOR_TOKEN,
  type LocalService,
  type Place,
  startLocalService,
} from "../local-service.ts";
import type { Lesson } from "./lessons.ts";

/**
 * Public: the service listens on this machine only. The scripts know them, too, but k6 lets them see the environment, in
 * which there may be others, of another service.
 */
export const KEYS_OF_SERVICE = {
  ADMIN_TOKEN: LOCAL_OPERATOR_TOKEN,
  API_KEY: "demo_acme_b3f1c2d4e5a60718",
};

/** Starts the service that a lesson needs, on a database that is ready. */
export function startLessonService(
  { vars, entry }: Pick<Lesson, "vars" | "entry">,
  place: Place,
): Promise<LocalService> {
  return startLocalService({
    ...place,
    vars: { ...vars, ADMIN_TOKEN: KEYS_OF_SERVICE.ADMIN_TOKEN },
    // In this order: whatever follows a --var is one more of them.
    args: entry === undefined ? ["--env", "load"] : ["--env", "load", entry],
  });
}
