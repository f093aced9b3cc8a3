import { type LocalService, type Place, startLocalService } from "../local-service.ts";
import type { Lesson } from "./lessons.ts";

/** Public, as the demo accounts' keys are: the service listens on this machine only. The scripts know it. */
const ADMIN_TOKEN = "local-operator-token";

/** Starts the service that a lesson needs, on a database that is ready. */
export function startLessonService(
  { vars, entry }: Pick<Lesson, "vars" | "entry">,
  place: Place,
): Promise<LocalService> {
  return startLocalService({
    ...place,
    vars: { ...vars, ADMIN_TOKEN },
    // In this order: whatever follows a --var is one more of them.
    args: entry === undefined ? ["--env", "load"] : ["--env", "load", entry],
  });
}
