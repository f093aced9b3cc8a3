ALTER TABLE `ledger_figures` ADD `newest_evicted_at` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
-- By hand: of what was evicted before, no more is known than that it was before now.
UPDATE `ledger_figures` SET `newest_evicted_at` = unixepoch() * 1000 WHERE `evicted` > 0;
