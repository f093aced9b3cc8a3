ALTER TABLE `ledger_figures` ADD `newest_evicted_at` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
-- By hand: what was evicted before, counted or not, is known only to have been before now.
UPDATE `ledger_figures` SET `newest_evicted_at` = unixepoch() * 1000 WHERE EXISTS (SELECT 1 FROM `orders`);
