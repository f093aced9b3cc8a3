-- STRICT was added by hand, as in 0000. An integer primary key is the row's own number, so WITHOUT ROWID saves nothing here.
CREATE TABLE `ledger_figures` (
	`id` integer PRIMARY KEY NOT NULL,
	`evicted` integer DEFAULT 0 NOT NULL,
	`takeovers` integer DEFAULT 0 NOT NULL,
	`fenced_out` integer DEFAULT 0 NOT NULL,
	`counted_at` integer,
	`pending` integer DEFAULT 0 NOT NULL,
	`completed` integer DEFAULT 0 NOT NULL,
	`released` integer DEFAULT 0 NOT NULL,
	`orphaned` integer DEFAULT 0 NOT NULL,
	`expired` integer DEFAULT 0 NOT NULL,
	CONSTRAINT "ledger_figures_one_row" CHECK("ledger_figures"."id" = 1)
) STRICT;
--> statement-breakpoint
CREATE TABLE `sweep_runs` (
	`id` integer PRIMARY KEY NOT NULL,
	`started_at` integer NOT NULL,
	`ended_at` integer,
	`evicted` integer DEFAULT 0 NOT NULL,
	`batches` integer DEFAULT 0 NOT NULL,
	`is_caught_up` integer,
	`lag_ms` integer
) STRICT;
--> statement-breakpoint
-- By hand, too: the one row, and what counts the takeovers. What was taken over before is in the generations.
INSERT INTO `ledger_figures` (`id`, `takeovers`) SELECT 1, coalesce(sum(`generation` - 1), 0) FROM `idempotency_keys`;
--> statement-breakpoint
-- Only a takeover sets the generation, so nothing else pays for this: a takeover writes one row more. A claim that is sent
-- twice because its answer was lost takes over once, and is counted once.
CREATE TRIGGER `idempotency_keys_takeover` AFTER UPDATE OF `generation` ON `idempotency_keys`
WHEN NEW.`generation` > OLD.`generation`
BEGIN
	UPDATE `ledger_figures` SET `takeovers` = `takeovers` + (NEW.`generation` - OLD.`generation`);
END;
