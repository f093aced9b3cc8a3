// The Worker as it is, among machines whose clocks disagree, for load-tests/03-takeover.ts: owners that are alive are
// taken over and come back late. Nothing but that may come of it, since no guarantee rests on a clock.
// oxlint-disable-next-line import/no-unassigned-import -- it changes the clock before the Worker is loaded.
import "./disagreeing-clocks.ts";

export { default, StripeSandbox } from "../../src/index.ts";
