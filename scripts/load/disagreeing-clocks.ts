/** How far ahead the clocks of some machines are, ms: further than any lease is long. */
const AHEAD_MS = 60_000;
const SHARE_AHEAD = 0.1;

const rightNow = Date.now;

// As if each look at the clock were one on another machine. The Worker takes the function when it is loaded, so this has
// to come first.
Date.now = () => rightNow() + (Math.random() < SHARE_AHEAD ? AHEAD_MS : 0);
