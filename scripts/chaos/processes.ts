import { readdir, readFile, readlink } from "node:fs/promises";

/** A process by that name that descends from `ancestor` and has a file open below a directory. Reads Linux's /proc. */
export async function findDescendant(
  ancestor: number,
  { name, directory }: { name: string; directory: string },
): Promise<number | undefined> {
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry)).map(Number);
  const all = new Map(
    await Promise.all(pids.map(async (pid) => [pid, await statOf(pid)] as const)),
  );
  const descends = (pid: number): boolean => {
    const parent = all.get(pid)?.parent ?? 0;
    return parent === ancestor || (parent > 1 && descends(parent));
  };
  for (const [pid, stat] of all) {
    if (stat?.name === name && descends(pid) && (await hasOpen(pid, directory))) return pid;
  }
  return undefined;
}

/** Undefined once it is gone. The name is in brackets and may itself hold some. */
async function statOf(pid: number): Promise<{ name: string; parent: number } | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const [, name, parent] = /^\d+ \((.*)\) \S (\d+) /s.exec(stat) ?? [];
  return name === undefined ? undefined : { name, parent: Number(parent) };
}

async function hasOpen(pid: number, directory: string): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const files = descriptors.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => ""));
  return (await Promise.all(files)).some((file) => file.startsWith(`${directory}/`));
}
