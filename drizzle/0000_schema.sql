-- Made by hand after `drizzle-kit generate`, which cannot say them: STRICT (a column holds its own type or nothing) and
-- WITHOUT ROWID (the primary key is the table, which saves one row written per insert).
CREATE TABLE `accounts` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`api_key_sha256` text NOT NULL,
	`created_at` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_api_key_sha256` ON `accounts` (`api_key_sha256`);--> statement-breakpoint
CREATE TABLE `products` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`sku` text NOT NULL,
	`name` text NOT NULL,
	`unit_price` integer NOT NULL,
	`currency` text NOT NULL,
	`stock` integer NOT NULL,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "products_stock_not_negative" CHECK("products"."stock" >= 0),
	CONSTRAINT "products_unit_price_not_negative" CHECK("products"."unit_price" >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `products_account_sku` ON `products` (`account_id`,`sku`);--> statement-breakpoint
CREATE TABLE `stock_adjustments` (
	`id` text PRIMARY KEY NOT NULL,
	`product_id` text NOT NULL,
	`delta` integer NOT NULL,
	`reason` text,
	`created_at` integer NOT NULL,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `stock_adjustments_product` ON `stock_adjustments` (`product_id`);--> statement-breakpoint
CREATE TABLE `idempotency_fence` (
	`lost` integer NOT NULL,
	CONSTRAINT "idempotency_fence_lost" CHECK(0)
) STRICT;
--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`principal` text NOT NULL,
	`key` text NOT NULL,
	`operation_id` text NOT NULL,
	`fingerprint` text NOT NULL,
	`status` text NOT NULL,
	`generation` integer NOT NULL,
	`owner` text NOT NULL,
	`request_method` text NOT NULL,
	`request_path` text NOT NULL,
	`response_status` integer,
	`response_headers` text,
	`response_body` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	PRIMARY KEY(`principal`, `key`),
	CONSTRAINT "idempotency_keys_status" CHECK("idempotency_keys"."status" IN ('pending', 'completed', 'released')),
	CONSTRAINT "idempotency_keys_generation" CHECK("idempotency_keys"."generation" >= 1),
	CONSTRAINT "idempotency_keys_response" CHECK(("idempotency_keys"."status" = 'completed') = ("idempotency_keys"."response_status" IS NOT NULL))
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `idempotency_keys_expires_at` ON `idempotency_keys` (`expires_at`);--> statement-breakpoint
CREATE TABLE `order_items` (
	`order_id` text NOT NULL,
	`position` integer NOT NULL,
	`product_id` text NOT NULL,
	`name` text NOT NULL,
	`unit_price` integer NOT NULL,
	`quantity` integer NOT NULL,
	PRIMARY KEY(`order_id`, `position`),
	FOREIGN KEY (`order_id`) REFERENCES `orders`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`product_id`) REFERENCES `products`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "order_items_quantity_positive" CHECK("order_items"."quantity" > 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `orders` (
	`id` text PRIMARY KEY NOT NULL,
	`account_id` text NOT NULL,
	`status` text NOT NULL,
	`currency` text NOT NULL,
	`total` integer NOT NULL,
	`reference` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "orders_status" CHECK(status IN ('pending', 'paid', 'partially_refunded', 'refunded', 'cancelled')),
	CONSTRAINT "orders_total_not_negative" CHECK("orders"."total" >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `orders_account` ON `orders` (`account_id`,`id`);