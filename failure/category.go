package failure

// Category is the public name of a failure class, as consumers of agent
// streams know it.
type Category string

// The categories. CategoryOrgNotAllowed is part of the public list, though no
// kind folds to it: see [Kind.Category].
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
	case Auth, Permission:
		// Most permission faults are of a region, a plan, a policy or a
		// firewall. The category of the one case in which an organisation
		// forbids its login would send consumers to the wrong advice, so all
		// of them go where 403 goes.
		return CategoryAuth
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
