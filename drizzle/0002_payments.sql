-- STRICT and WITHOUT ROWID were added by hand, as in 0000.
CREATE TABLE `payments` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`order_id` text NOT NULL,
	`status` text NOT NULL,
	`amount` integer NOT NULL,
	`currency` text NOT NULL,
	`refunded_amount` integer DEFAULT 0 NOT NULL,
	`payment_method` text NOT NULL,
	`idempotency_key` text NOT NULL,
	`provider_payment_id` text,
	`decline_code` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`order_id`) REFERENCES `orders`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "payments_status" CHECK("payments"."status" IN ('processing', 'succeeded', 'failed')),
	CONSTRAINT "payments_amount_positive" CHECK("payments"."amount" > 0),
	CONSTRAINT "payments_refunded_at_most_amount" CHECK("payments"."refunded_amount" BETWEEN 0 AND "payments"."amount")
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `payments_one_active_per_order` ON `payments` (`order_id`) WHERE status IN ('processing', 'succeeded');--> statement-breakpoint
CREATE INDEX `payments_order` ON `payments` (`order_id`,`id`);--> statement-breakpoint
CREATE INDEX `payments_processing` ON `payments` (`updated_at`) WHERE status = 'processing';--> statement-breakpoint
CREATE TABLE `refunds` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`payment_id` text NOT NULL,
	`status` text NOT NULL,
	`amount` integer NOT NULL,
	`reason` text,
	`idempotency_key` text NOT NULL,
	`provider_refund_id` text,
	`failure_code` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`payment_id`) REFERENCES `payments`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "refunds_status" CHECK("refunds"."status" IN ('processing', 'succeeded', 'failed')),
	CONSTRAINT "refunds_amount_positive" CHECK("refunds"."amount" > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `refunds_payment` ON `refunds` (`payment_id`);--> statement-breakpoint
CREATE INDEX `refunds_processing` ON `refunds` (`updated_at`) WHERE status = 'processing';