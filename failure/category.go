package failure

// Category is the public name of a failure class, as consumers of agent
// streams know it (R34).
type Category string

// The categories of R34.
const (
	CategoryAuth            Category = "authentication_failed"
	CategoryOrgNotAllowed   Category = "oauth_org_not_allowed"
	CategoryBilling         Category = "billing_error"
	CategoryRateLimit       Category = "rate_limit"
	CategoryOverloaded      Category = "overloaded"
	CategoryInvalidRequest  Category = "invalid_request"
	CategoryModelNotFound   Category = "model_not_found"
	CategoryServerError     Category = "server_error"
	CategoryMaxOutputTokens Category = "max_output_tokens"
	CategoryUnknown         Category = "unknown"
)

// Category folds a kind to its public category. It is a function of the kind
// alone, so no two surfaces can disagree.
func (k Kind) Category() Category {
	switch k {
	case Overloaded:
		return CategoryOverloaded
	case RateLimit, QuotaExhausted:
		return CategoryRateLimit
	case Billing:
		return CategoryBilling
	case Auth:
		return CategoryAuth
	case Permission:
		return CategoryOrgNotAllowed
	case ModelNotFound:
		return CategoryModelNotFound
	case ContextOverflow, MaxTokensOverflow, RequestTooLarge, MediaTooLarge, MediaInvalid,
		ToolPairing, ThinkingSignature, ContentPolicy, InvalidRequest:
		return CategoryInvalidRequest
	case ServerError, Timeout:
		return CategoryServerError
	case Network, Aborted, Unknown:
		return CategoryUnknown
	}
	return CategoryUnknown
}
