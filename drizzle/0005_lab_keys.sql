-- What the naive endpoints of src/lab remember: empty, and asked for by nothing, unless LAB is on. STRICT and WITHOUT ROWID
-- were added by hand, as in 0000.
CREATE TABLE `lab_keys` (
	`endpoint` text NOT NULL,
	`principal` text NOT NULL,
	`key` text NOT NULL,
	`body_sha256` text NOT NULL,
	`claimed_at` integer NOT NULL,
	`response` text,
	PRIMARY KEY(`endpoint`, `principal`, `key`)
) STRICT, WITHOUT ROWID;
