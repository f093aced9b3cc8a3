-- Two accounts with a small catalogue each, for local runs. Safe to run again: what exists is left as it is.
-- Their keys are public (README), so never load this where the service can be reached from outside.
INSERT INTO accounts (id, name, api_key_sha256, created_at) VALUES
  -- demo_acme_b3f1c2d4e5a60718
  ('acct_0192f3a0-0000-7000-8000-00000000000a', 'Acme', '3079d5eedde915165c88a2d5b2f9ce3b1186b3122d19cd420a70264960ca65b2', 1730332800000),
  -- demo_globex_7a90c1e2f3b4d586
  ('acct_0192f3a0-0000-7000-8000-00000000000b', 'Globex', 'faf4b86297668507c684aaf98aa7fae9078988c3e53ba694254ad25a08281a67', 1730332800000)
ON CONFLICT DO NOTHING;

INSERT INTO products (id, account_id, sku, name, unit_price, currency, stock, created_at) VALUES
  ('prod_0192f3a0-0000-7000-8000-000000000001', 'acct_0192f3a0-0000-7000-8000-00000000000a', 'MUG-01', 'Mug', 1250, 'EUR', 10000, 1730332800000),
  ('prod_0192f3a0-0000-7000-8000-000000000002', 'acct_0192f3a0-0000-7000-8000-00000000000a', 'TEE-01', 'T-shirt', 2400, 'EUR', 10000, 1730332800000),
  ('prod_0192f3a0-0000-7000-8000-000000000003', 'acct_0192f3a0-0000-7000-8000-00000000000a', 'PIN-01', 'Pin', 300, 'EUR', 1, 1730332800000),
  ('prod_0192f3a0-0000-7000-8000-000000000004', 'acct_0192f3a0-0000-7000-8000-00000000000b', 'LAMP-01', 'Lamp', 8900, 'USD', 10000, 1730332800000)
ON CONFLICT DO NOTHING;

INSERT INTO stock_adjustments (id, product_id, delta, reason, created_at) VALUES
  ('adj_0192f3a0-0000-7000-8000-000000000001', 'prod_0192f3a0-0000-7000-8000-000000000001', 10000, 'initial stock', 1730332800000),
  ('adj_0192f3a0-0000-7000-8000-000000000002', 'prod_0192f3a0-0000-7000-8000-000000000002', 10000, 'initial stock', 1730332800000),
  ('adj_0192f3a0-0000-7000-8000-000000000003', 'prod_0192f3a0-0000-7000-8000-000000000003', 1, 'initial stock', 1730332800000),
  ('adj_0192f3a0-0000-7000-8000-000000000004', 'prod_0192f3a0-0000-7000-8000-000000000004', 10000, 'initial stock', 1730332800000)
ON CONFLICT DO NOTHING;
