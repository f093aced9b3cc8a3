// The Worker as it is, among machines whose clocks disagree, for load-tests/03-takeover.ts: owners that are alive are
// taken over and come back late. Nothing else may come of it: these clocks are wrong by less than any guarantee minds.
// oxlint-disable-next-line import/no-unassigned-import -- it changes the clock before the Worker is loaded.
import "./disagreeing-clocks.ts";

export { default, StripeSandbox } from "../../src/index.ts";
