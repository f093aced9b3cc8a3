-- The order's states: pending -> paid -> partially_refunded -> refunded, and pending -> cancelled. Any other change,
-- also to the same state, aborts the batch that asks for it, so that two keys cannot both cancel one order.
CREATE TRIGGER `orders_transition` BEFORE UPDATE OF `status` ON `orders`
WHEN NOT (
	(OLD.status = 'pending' AND NEW.status IN ('paid', 'cancelled'))
	OR (OLD.status IN ('paid', 'partially_refunded') AND NEW.status IN ('partially_refunded', 'refunded'))
)
BEGIN
	SELECT RAISE(ABORT, 'orders_transition_forbidden');
END;
