package failure

var (
	owes = idea(
		`insufficient (?:account )?(?:\w+ )?(?:balance|credits?|funds)`,
		`(?:balance|credits?|funds)[\w ]{0,20} (?:is |are )?`+oneOf(`too low|insufficient|not enough|negative|depleted|exhausted|used up|run out|ran out`),
		oneOf(
			`out of|no (?:remaining|available|more)|not have any|n't have any|not enough|lack(?:s|ing)?|used all available`,
			`require[sd]? more|purchase (?:more )?|buy (?:more )?|depleted your|exhausted your|run out of`,
			`ran out of`,
		)+`(?: \w+)? ?(?:credits?|funds|balance)\b`,
		`spend(?:ing)?[ _]?(?:limit|cap)|payment (?:required|method|failed|instrument)`,
		`(?:unpaid|overdue|past)[\w ]{0,10} (?:bill|invoice|payment|balance)|in arrears|good standing`,
		`failure to pay|\brecharge|\btop[- ]?up\b|extra usage is required|usage credits|enable billing`,
		`billing (?:to be enabled|is (?:not enabled|disabled)|hard limit|account)|account balance`,
		`credit balance|not active, please check your billing|余额|欠费|充值|额度不足|未付|付款`,
	)
	owesCode = coded(
		"insufficient_balance", "insufficient_balance_error", "insufficient_funds",
		"insufficient_credits", "payment_required", "billing_error", "billing_not_active",
		"billing_hard_limit_reached", "enforced_spend_limit_reached", "Arrearage", "AccountOverdueError",
		"credits_exhausted", "CreditsError", "out_of_credits",
	)
	passing = idea(`retry shortly|try again shortly|being reconciled|still (?:being )?process|settl(?:ing|ement)`)

	spentQuota = idea(
		`(?:exceeded|exhausted|reached|used up|out of|over)\s(?:\w+ ){0,4}(?:quota|allowance)`,
		`insufficient[_ ]quota|quota (?:has been |is )?(?:exhausted|used up|depleted|not enough|insufficient)`,
		`(?:free|plan|trial|monthly|token)[\w ]{0,12} (?:quota|tier)[\w ]{0,12} (?:exceeded|exhausted|has been used)`,
		`budget (?:has been )?exceeded|exceeded (?:the |your )?budget|budget_exceeded|over budget`,
		`usage limits?|(?:key|total|account|plan) limit (?:exceeded|reached)`,
		`(?:reached|hit|exceeded) (?:the |your |its )?(?:set |session |plan |account |weekly |daily |monthly )(?:\w+ )?(?:usage )?limit`,
		`(?:额度|配额|限额)(?:已|不足|用完|耗尽|已用)|已用完|用尽|上限已达|使用上限`,
	)
	spentCode = coded(
		"insufficient_quota", "quota_exhausted", "usage_limit_reached", "usage_limit_exceeded",
		"budget_exceeded", "ServiceQuotaExceededException", "exceeded_current_quota_error",
		"daily_limit_exceeded", "free_tier_only", "AllocationQuota.FreeTierOnly",
	)
	allowance = idea(`limit|too many|quota|exceed|exhaust|allowance|usage|reached|限|额|用完`)
	atOnce    = idea(`too many requests|rate[-_ ]limit|concurren`)

	load = idea(
		`overload|high(?:er)? (?:demand|load|traffic)|heavy (?:load|traffic|demand)|peak load`,
		`(?:at|over) (?:full |max\w* )?capacity|capacity (?:limit|constraint|exceeded|reached|issue)`,
		`(?:insufficient|out of|no|lack of|not enough|limited|short of) (?:\w+ )?capacity|system capacity`,
		`(?:server|service|engine|system|model|backend|worker|we)s?(?: is| are|'re)?(?: \w+)? busy`,
		`\bbusy\b[^.]{0,30}try|no available (?:workers?|servers?|instances?)|temporarily unavailable`,
		`queue (?:is )?(?:full|budget|saturat|overflow)|(?:pending|queued) requests exceeded`,
		`unable to process your request|experiencing (?:high|heavy|increased|unusually)`,
		`reset reason: overflow|service_?unavailable_?error|server_is_overloaded`,
		`(?:系统|服务|模型|引擎|服务器)[^。]{0,12}(?:繁忙|过载|负载|拥挤|忙)|访问量过大|负载过高|当前负载|资源紧张|请求过多[^。]{0,10}(?:负载|系统)`,
	)
	loadCode = coded(
		"overloaded_error", "overloaded", "server_is_overloaded", "engine_overloaded_error",
		"engine_overloaded", "ServiceUnavailableException", "service_unavailable_error",
		"ServerOverloaded", "ModelNotReadyException", "slow_down", "no_available_workers",
		"model_overloaded", "capacity_exceeded", "system_busy", "queue_full",
	)

	rate = idea(
		`rate[-_ ]?limit|too many (?:concurrent )?requests|throttl`,
		`too many tokens(?: per|, please wait| processed)`,
		`(?:per|/) ?(?:minute|min|second|sec|\d+ ?s(?:ec)?)\b|per_minute|\b(?:rpm|tpm|qps|rps|itpm|otpm)\b`,
		`concurren\w+[^.]{0,40}(?:limit|exceed|reduce|too|max)|(?:limit|exceed|max|high)[^.]{0,30}concurren`,
		`slow down|request(?:s|ing)? (?:too )?(?:frequent|fast|quickly)|too (?:frequent|fast)`,
		`cool(?:ing|s)?[- _]?down`,
		`(?:accounts?|requests?|clients?|keys?|credentials?)(?: \w+)? (?:is|are|being) (?:currently |temporarily )?limited`,
		`temporarily limiting requests|request was throttled|resource has been exhausted|速率|频率|频繁|限流|限速|并发`,
		`每分钟|请求数(?:过多|超)|调用次数`,
	)
	rateQuota = idea(`quota exceeded|allocated quota exceeded|exceed\w* (?:\w+ ){0,3}quota`)
	rateCode  = coded(
		"rate_limit_error", "rate_limit_exceeded", "rate_limited", "rate_limit",
		"rate_limit_reached_error", "too_many_requests", "ThrottlingException", "Throttling",
		"Throttling.RateQuota", "TooManyRequestsException", "RequestThrottled", "RequestLimitExceeded",
		"limit_requests", "limitation", "ServerSideRateLimit", "RateLimitExceeded.EndpointTPMExceeded",
		"RateLimitExceeded.EndpointRPMExceeded",
	)
)

// limitRules tell apart what waiting cures (rates, load), what only time cures
// (allowances), and what only money cures. All of them come as 429, and as
// nearly everything else.
var limitRules = []rule{
	{
		name:   "larger-than-the-rate",
		reason: "one request needs more than the bucket ever holds: never passes by waiting, passes when smaller",
		kind:   ContextOverflow, retry: RetryNo,
		when: func(e *evidence) bool {
			n := e.numbers
			return n.Requested > n.Limit && n.Limit > 0 && (rate().MatchString(e.text) || rateCode(e))
		},
	},
	{
		name:   "bill-in-settlement",
		reason: "a charge that is being settled passes by itself: the one case of money that asks for a retry",
		kind:   Billing, retry: RetryYes,
		when: all(either(says(idea(`credit|charge|bill|payment|balance`)), answered(402)), says(passing), answered(0, 200, 402, 429)),
	},
	{
		name:   "money",
		reason: "a balance, credits, a bill or a spending limit: stronger than any window that stands beside it",
		kind:   Billing, retry: RetryNo,
		when: all(either(says(owes), owesCode), not(says(idea(`credits? to unlock|free[- ]models?[- ]per|credits per`)))),
	},
	{
		name:   "no-allowance",
		reason: "a stated limit of zero means that the plan holds none of it: the wait beside it is useless",
		kind:   QuotaExhausted, retry: RetryNo,
		when: func(e *evidence) bool {
			return e.numbers.NoAllowance && e.numbers.QuotaWindow != "5h" && allowance().MatchString(e.text)
		},
	},
	{
		name:   "quota-by-window",
		reason: "an allowance over hours or longer; a per-minute limit violated as well is the smaller evil",
		kind:   QuotaExhausted, retry: RetryNo,
		when: func(e *evidence) bool {
			return e.numbers.QuotaWindow != "" && allowance().MatchString(e.text) && answered(0, 200, 400, 403, 429, 500, 503)(e)
		},
	},
	{
		name:   "plan-limit-headers",
		reason: "headers of a subscription's windows stand only where the plan, not a short throttle, refused",
		kind:   QuotaExhausted, retry: RetryNo,
		when: all(answered(429), planRefused),
	},
	{
		name:   "load",
		reason: "the provider blames its own load: keep trying, or change the model, whatever the type says",
		kind:   Overloaded, retry: RetryYes,
		when: all(either(says(load), all(answered(503), says(idea(`slow down`)))), func(e *evidence) bool { return !e.html }),
	},
	{
		name:   "quota-by-the-minute",
		reason: "the violated metric is counted by the minute, whatever the sentence calls it",
		kind:   RateLimit, retry: RetryYes,
		when: says(idea(`quota`), idea(`per[ _-]?(?:minute|min|second)|perminute`)),
	},
	{
		name:   "quota",
		reason: "an allowance without a named window; 'usage limits' beside 'too many requests' is a rate",
		kind:   QuotaExhausted, retry: RetryNo,
		when: all(either(says(spentQuota), spentCode), not(rateInDisguise)),
	},
	{
		name:   "payment-status",
		reason: "402 has no other use",
		kind:   Billing, retry: RetryNo,
		when: answered(402),
	},
	{
		name:   "rate",
		reason: "a window of a minute or less, or none named: waiting helps",
		kind:   RateLimit, retry: RetryYes,
		when: says(rate),
	},
	{
		name:   "rate-called-quota",
		reason: "clouds call their per-minute metrics quotas: without a longer window it is a rate",
		kind:   RateLimit, retry: RetryYes,
		when: all(either(says(rateQuota), coded("RESOURCE_EXHAUSTED")), answered(0, 200, 403, 429, 503)),
	},
}

// perDayQuotaID is a cloud's name of a metric that is counted by the day.
var perDayQuotaID = idea(`requestsperday|tokensperday|quotaid`)

// planRefused holds when headers of a subscription's windows say that one of
// them is full, or stand there without saying that it is not.
func planRefused(e *evidence) bool {
	status := e.header["anthropic-ratelimit-unified-status"]
	return status == "rejected" || status == "" && e.header["anthropic-ratelimit-unified-reset"] != ""
}

// rateInDisguise holds for texts that speak of a usage limit, and in the same
// breath of requests that come too fast.
var rateInDisguise = either(
	says(idea(`not your usage limit`)),
	all(says(atOnce), not(spentCode), not(says(idea(`current quota|allowance|budget`)))),
)
