export interface ProblemKind {
  status: number;
  title: string;
  /** Whether sending the same request again, under the same key, can help. */
  retryable: boolean;
  /** Becomes the Retry-After. A second is the least that it can say. */
  retryAfterSeconds?: number;
  /** What its page tells the caller to do. */
  advice: string;
}

/** Every error this API answers: the one place that maps a code to a status. */
export const PROBLEMS = {
  invalid_request: {
    status: 400,
    title: "The request is not valid",
    retryable: false,
    advice:
      "Correct the fields listed in `errors` and send it again. Nothing was claimed, so the same key may be used.",
  },
  idempotency_key_required: {
    status: 400,
    title: "An Idempotency-Key is required",
    retryable: false,
    advice:
      "Make one key per operation, before the first try, and send it with every try: a uuid is a good key. Without it a retry could act twice.",
  },
  idempotency_key_invalid: {
    status: 400,
    title: "The Idempotency-Key is not valid",
    retryable: false,
    advice:
      'Send 1 to 255 printable ASCII characters, either bare or as one quoted string: Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324".',
  },
  unauthorized: {
    status: 401,
    title: "Authentication is required",
    retryable: false,
    advice: "Send the account's API key: Authorization: Bearer <key>.",
  },
  card_declined: {
    status: 402,
    title: "The card was declined",
    retryable: false,
    advice:
      "Nothing was charged, and the answer is final for this key. `decline_code` is the provider's reason. Pay again with another payment method, under a new key.",
  },
  not_found: {
    status: 404,
    title: "Not found",
    retryable: false,
    advice:
      "There is nothing at this address for your account. What belongs to another account is not shown either.",
  },
  method_not_allowed: {
    status: 405,
    title: "Method not allowed",
    retryable: false,
    advice: "The Allow header lists the methods that this address accepts.",
  },
  idempotency_key_in_progress: {
    status: 409,
    title: "A request with this key is still executing",
    retryable: true,
    retryAfterSeconds: 1,
    advice:
      "Send the same request again with the same key, after `retry_after_ms`. Once the first one ends you get its answer; if its owner died, a retry may execute after `takeover_after_ms`. `Prefer: wait=5` lets the server do the waiting.",
  },
  idempotency_key_retry: {
    status: 409,
    title: "The key's record went away while it was read",
    retryable: true,
    retryAfterSeconds: 1,
    advice: "Send the same request again with the same key.",
  },
  insufficient_stock: {
    status: 409,
    title: "Not enough in stock",
    retryable: false,
    advice:
      "The answer is final for this key. Order less, or later, under a new key. `products` says what is left of each.",
  },
  sku_taken: {
    status: 409,
    title: "The SKU is taken",
    retryable: false,
    advice: "Another product of your account has this SKU. Use another one, under a new key.",
  },
  order_not_cancellable: {
    status: 409,
    title: "The order cannot be cancelled",
    retryable: false,
    advice: "Only a pending order can be cancelled. `order_status` says what it is.",
  },
  order_not_payable: {
    status: 409,
    title: "The order cannot be paid",
    retryable: false,
    advice:
      "Only a pending order with something to pay can be paid. `order_status` says what it is.",
  },
  payment_in_progress: {
    status: 409,
    title: "Another payment of this order is being processed",
    retryable: false,
    advice:
      "The answer is final for this key. Read the order's payments to see how the other one ends; should it fail, pay under a new key.",
  },
  payment_not_refundable: {
    status: 409,
    title: "The payment cannot be refunded",
    retryable: false,
    advice:
      "Only a payment that succeeded can be refunded: see `payment_status`. With `failure_code` it is the provider that refused.",
  },
  body_too_large: {
    status: 413,
    title: "The request body is too large",
    retryable: false,
    advice: "`limit_bytes` is the most that is accepted.",
  },
  unsupported_media_type: {
    status: 415,
    title: "The request body must be JSON",
    retryable: false,
    advice: "Send Content-Type: application/json.",
  },
  idempotency_key_reused: {
    status: 422,
    title: "The key belongs to another request",
    retryable: false,
    advice:
      "This key was used with another body, path, query, content type or API version. Send the first request again unchanged to get its answer, or make a new key for a new operation.",
  },
  unknown_product: {
    status: 422,
    title: "A product does not exist",
    retryable: false,
    advice: "`product_ids` lists what your account's catalogue does not have.",
  },
  mixed_currencies: {
    status: 422,
    title: "The products have different currencies",
    retryable: false,
    advice: "Place one order per currency. `currencies` lists what was found.",
  },
  order_total_too_large: {
    status: 422,
    title: "The total is too large",
    retryable: false,
    advice: "The total must be an integer that JSON can carry exactly: at most 9007199254740991.",
  },
  refund_exceeds_payment: {
    status: 422,
    title: "The refund exceeds what is left of the payment",
    retryable: false,
    advice: "`refundable_amount` is what is left, in minor units.",
  },
  webhook_signature_invalid: {
    status: 400,
    title: "The webhook's signature is not valid",
    retryable: false,
    advice:
      "The signature must be made over the raw body with one of this service's signing secrets, and be recent. Check STRIPE_WEBHOOK_SECRETS and the sender's clock.",
  },
  rate_limited: {
    status: 429,
    title: "Too many requests",
    retryable: true,
    // Cloudflare's limiter counts in windows of 10 or 60 s; this waits out a good part of either.
    retryAfterSeconds: 10,
    advice: "Wait for Retry-After seconds. Nothing was claimed; use the same key.",
  },
  internal_error: {
    status: 500,
    title: "Something went wrong on our side",
    retryable: true,
    advice:
      "Send the same request again with the same key: it cannot act twice. Tell us the `request_id` if it goes on.",
  },
  idempotent_response_too_large: {
    status: 500,
    title: "The response is too large to be replayed",
    retryable: false,
    advice:
      "What it would have written was not, since an answer that cannot be stored cannot be replayed. This is a defect of the service: tell us the `request_id`.",
  },
  outcome_unknown: {
    status: 503,
    title: "The outcome is not known yet",
    retryable: true,
    retryAfterSeconds: 1,
    advice:
      "Something may have happened. Send the same request again with the same key: it continues where this one stopped and cannot act twice.",
  },
  service_unavailable: {
    status: 503,
    title: "The service is busy",
    retryable: true,
    retryAfterSeconds: 1,
    advice: "Wait for Retry-After seconds and send the same request again with the same key.",
  },
} as const satisfies Record<string, ProblemKind>;

export type ProblemCode = keyof typeof PROBLEMS;
