-- A payment and a refund are settled once: from processing, to succeeded or failed. Any other change of status aborts the
-- batch that asks for it, so that whoever settles second finds out and reads again.
CREATE TRIGGER `payments_transition` BEFORE UPDATE OF `status` ON `payments`
WHEN NOT (OLD.status = 'processing' AND NEW.status IN ('succeeded', 'failed'))
BEGIN
	SELECT RAISE(ABORT, 'payments_transition_forbidden');
END;
--> statement-breakpoint
CREATE TRIGGER `refunds_transition` BEFORE UPDATE OF `status` ON `refunds`
WHEN NOT (OLD.status = 'processing' AND NEW.status IN ('succeeded', 'failed'))
BEGIN
	SELECT RAISE(ABORT, 'refunds_transition_forbidden');
END;
--> statement-breakpoint
-- Pay and cancel race for one order. Whichever commits first, the other is refused: no payment of an order that is not
-- pending, no cancellation of one that somebody is paying for.
CREATE TRIGGER `payments_order_pending` BEFORE INSERT ON `payments`
WHEN (SELECT status FROM orders WHERE id = NEW.order_id) IS NOT 'pending'
BEGIN
	SELECT RAISE(ABORT, 'payments_order_not_pending');
END;
--> statement-breakpoint
CREATE TRIGGER `orders_cancel_unpaid` BEFORE UPDATE OF `status` ON `orders`
WHEN NEW.status = 'cancelled' AND EXISTS (
	SELECT 1 FROM payments WHERE order_id = NEW.id AND status IN ('processing', 'succeeded')
)
BEGIN
	SELECT RAISE(ABORT, 'orders_payment_active');
END;
--> statement-breakpoint
-- Only what was captured can be given back.
CREATE TRIGGER `refunds_payment_succeeded` BEFORE INSERT ON `refunds`
WHEN (SELECT status FROM payments WHERE id = NEW.payment_id) IS NOT 'succeeded'
BEGIN
	SELECT RAISE(ABORT, 'refunds_payment_not_succeeded');
END;
