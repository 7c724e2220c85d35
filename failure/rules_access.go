package failure

var (
	forbidden = idea(
		`not (?:currently |yet )?(?:allowed|available|supported|permitted|enabled) (?:for|in|by|to) (?:this|your|the) (?:\w+ )?`+oneOf(`organization|subscription|account|plan|tier|country|region|location|workspace|project|team|user`),
		`(?:organization|account|project|team|workspace|user|app)(?: \S+)? (?:has been|is|was) (?:\w+ )?`+oneOf(`disabled|suspended|deactivated|banned|blocked|terminated|restricted|locked`),
		`(?:country|region|territory|location)[\w ,]{0,40} (?:is )?(?:not supported|unsupported|not available|blocked|restricted)`,
		`unsupported[_ ](?:country|region)|not authorized to|only authorized for|not entitled`,
		`(?:don't|do not|does not|doesn't) have (?:\w+ )?(?:access|permissions?|rights?|privileges|authoriz\w+)`,
		`(?:insufficient|lacks?|missing|no|required) (?:\w+ )?permissions?`,
		`permission '?[\w.]*'? ?(?:is |was )?denied|permission[_ -]denied`,
		`access (?:to (?:the |this )?\w+ )?(?:is |was |has been )?(?:denied|forbidden|blocked|restricted)`,
		`access denied|(?:operation|request|action) (?:is )?not allowed|api has not been used in project`,
		`have i been blocked|you have been blocked|security (?:service|solution|polic)|attention required`,
		`ip (?:address )?(?:is )?(?:not allowed|blocked|restricted|not in)|beta is not (?:yet )?available`,
		`not available (?:for|on|in|with) your (?:\w+ )?(?:plan|subscription|tier|region|country)`,
		`only available (?:to|for|on|with) (?:\w+ )?(?:plan|subscriber|paid|pro|enterprise|users)`,
		`policy (?:prevents|forbids|blocks)|explicit deny|权限|无权|未授权访问|地区|区域不支持|账号已?(?:被封|封禁|停用)`,
		`账户已?(?:被封|封禁|停用|异常)`,
	)
	forbiddenCode = coded(
		"unsupported_country_region_territory", "permission_denied", "AppIdNoAuthError",
		"request_forbidden", "account_deactivated", "organization_disabled", "AccessDeniedException",
		"oauth_org_not_allowed", "SERVICE_DISABLED",
	)

	credential = idea(
		`api[-_ ]?keys?\b|_api_key|(?:subscription|user|virtual|secret|access|auth) key|credentials?`,
		oneOf(
			`security|access|auth|authentication|bearer|oauth|refresh|id|session|user|invalid|jwt`,
			`personal access`,
		)+`[ _]?tokens?\b`,
		`token (?:is |has |was |does |not |signature )|authentication|authoriz|unauthoriz|unauthenticated`,
		`log ?in\b|sign(?:ing)? in\b|logged in|密钥|令牌|鉴权|认证|登录|身份验证|apikey|身份`,
	)
	unfit = idea(
		`invalid|incorrect|expired|revoked|missing|not set|not (?:a )?valid|wrong|malformed|required`,
		`not found|not exist|no (?:\w+ ){0,3}(?:key|credentials?|token|header|auth)|could not|couldn't|can't`,
		`cannot|unable|failed|fail\b|please (?:log ?in|run|provide|sign|pass)|provide (?:an|your|a valid)`,
		`leaked|invalidated|disabled|must be (?:provided|set)|not provided|unauthorized|unauthenticated`,
		`does(?: not|n't) match|again|无效|过期|错误|失败|不存在|缺失|未提供|不正确|已失效|异常`,
	)
	userGone = idea(
		`user not found|no auth credentials|no cookie auth|invalid authentication`,
		`request signature we calculated|not logged in|invalid_grant|reauthenticat`,
	)

	absent = idea(
		`(?:model|deployment|endpoint|engine|publisher)s?\b[^;{]{0,120}?`+oneOf(
			`not[ _]found|does(?: not|n't) exist|do(?: not|n't) exist|not exist`,
			`is not (?:a )?(?:valid|available|recognized|known|found|loaded|deployed)|not (?:yet )?available`,
			`no longer|unknown|unsupported model|isn't supported|is not supported\b`,
			`has been (?:deprecated|decommissioned|removed|retired|deleted|shut)|decommissioned|deprecated`,
			`retired|end of life|reached the end|was not found|could not be found|not deployed|not activated`,
			`not open|(?:not|only) available (?:with|on) the \w+ \w+ plan|has not been activated`,
			`is not a known`,
		),
		oneOf(
			`no such|unknown|invalid|not found the|unrecognized|nonexistent|unsupported|no endpoints? found`,
			`could not find|couldn't find|cannot find|can't find`,
			`no available (?:channels?|providers?|endpoints?)`,
			`no (?:healthy )?(?:deployments?|providers?|allowed providers)(?: are)? available`,
		)+`[\w :]{0,30}\b(?:model|deployment|endpoint|engine)\b`,
		`not (?:a )?(?:valid|known) model|no endpoints? found for|no available (?:\w+ )?providers?|is not available with the [\w ]{1,20} plan|invalid model|no endpoints found`,
		`rejected model|model id is invalid|model identifier is invalid|not have access to (?:the )?model`,
		`not allowed to access (?:the |this )?model|can only access models|provider not provided`,
		`model:? \S+ (?:not found|is not)|模型[^。]{0,30}(?:不存在|未找到|未开通|不可用|已下线|不支持)`,
		`(?:不存在|未找到|未开通|找不到)[^。]{0,12}模型|无可用渠道`,
	)
	absentCode = coded(
		"model_not_found", "ModelNotFound", "DeploymentNotFound", "InvalidEndpointOrModel.NotFound",
		"ModelNotOpen", "model_not_available", "model_not_supported", "unsupported_model",
		"invalid_model", "model_decommissioned", "InvalidModel", "unknown_model", "ModelNotExist",
		"model_terms_required", "NoSuchModel", "key_model_access_denied",
	)
	ability = idea(
		`(?:does(?: not|n't)|do(?: not|n't)|cannot) support`,
		`that support (?:\w+ )?(?:tool|function|image|parameter|json|structured|cache|prompt)`,
		`\b`+oneOf(
			`tools?|functions?|json|stream\w*|images?|parameters?|features?|response_format|schema`,
			`temperature|mode|system prompt|prefill|operation|method|api|values?`,
		)+`\b[^.;]{0,40} (?:is|are)(?: currently)? not supported`,
		`unsupported (?:value|parameter)|model requires more|does not represent`,
	)
)

// accessRules tell apart a model that is not there, an account that may not, and
// a credential that does not fit.
var accessRules = []rule{
	{
		name:   "token-revoked",
		reason: "a revoked or expired credential: a permission fault by type, but a new login cures it",
		kind:   Auth, retry: RetryNo,
		when: says(idea(
			`(?:token|key|credentials?|session|login)(?: included in the request)? (?:has been |is |was |has )?(?:missing or )?(?:revoked|expired|invalidated|leaked|reported as leaked)`,
			`expiredtoken|obtain a new token|scope requirement|insufficient_scope|missing scopes|required scopes?`,
		),
			idea(`token|key|credential|oauth|session|login`)),
	},
	{
		name:   "model-access",
		reason: "access to a model is granted by an administrator; the model itself exists",
		kind:   Permission, retry: RetryNo,
		when: all(says(idea(
			`model access is denied|(?:don't|do not|does not) have access to the model with`,
			`not authorized to perform|you are not authorized|explicit deny|permission '[^']+' (?:was )?denied`,
		)), not(absentCode)),
	},
	{
		name:   "nobody-can",
		reason: "a router knows the model, but nobody who serves it can do what the request asks for",
		kind:   InvalidRequest, retry: RetryNo,
		when: says(idea(
			`no (?:endpoints?|providers?) (?:found )?that (?:can )?support`,
			`(?:does not|doesn't) work with the specified model`,
		)),
	},
	{
		name:   "model-missing",
		reason: "the model, deployment or endpoint is missing, or not open to this caller; to change it is the cure in either case",
		kind:   ModelNotFound, retry: RetryNo,
		when: all(either(absentCode, all(says(absent), not(says(ability)))), not(says(idea(`api key|invalid endpoint key|subscription key`)))),
	},
	{
		name:   "forbidden-here",
		reason: "the account, its plan, its region or a policy forbids it: a new login meets the same rule",
		kind:   Permission, retry: RetryNo,
		when: all(says(forbidden), not(says(idea(`subscription key|invalid api key|incorrect api key`)))),
	},
	{
		name:   "credential",
		reason: "a key or a login that is missing, wrong or not valid any more",
		kind:   Auth, retry: RetryNo,
		when: all(either(says(credential, unfit), says(userGone)), answered(0, 200, 400, 401, 403, 404, 407, 500, 503)),
	},
	{
		name:   "credential-code",
		reason: "codes of a bad key, in a body without a telling word",
		kind:   Auth, retry: RetryNo,
		when: coded(
			"authentication_error", "invalid_api_key", "API_KEY_INVALID", "invalid_authentication_error",
			"UNAUTHENTICATED", "UnrecognizedClientException", "ExpiredTokenException",
			"InvalidSignatureException", "IncompleteSignatureException",
			"MissingAuthenticationTokenException", "InvalidClientTokenId", "SignatureDoesNotMatch", "unauthorized", "token_expired", "invalid_token",
			"incomplete_signature", "AuthenticationError", "missing_api_key",
		),
	},
	{
		name:   "forbidden-code",
		reason: "codes of an account that may not",
		kind:   Permission, retry: RetryNo,
		when: all(forbiddenCode, not(answered(401))),
	},
}

// vendorRules read numbers that only one vendor gives a meaning. Nearly all of
// their answers also say it in words; these catch the ones that do not.
var vendorRules = []rule{
	{
		name:     "xunfei-no-tokens-left",
		reason:   "one code stands for two causes; the counter that ran out is named behind it",
		provider: "xunfei",
		kind:     QuotaExhausted, retry: RetryNo,
		when: says(idea(`appidnoautherror:?\S* tokens\.total`)),
	},
	{
		name:     "zhipu-money",
		reason:   "1113 is an account without means",
		provider: "zhipu",
		kind:     Billing, retry: RetryNo,
		when: numbered(1112, 1113),
	},
	{
		name:     "zhipu-rate",
		reason:   "1302 and 1303 are concurrency and frequency of the account",
		provider: "zhipu",
		kind:     RateLimit, retry: RetryYes,
		when: numbered(1302, 1303),
	},
	{
		name:     "zhipu-load",
		reason:   "1305 and 1312 are the traffic of a whole model",
		provider: "zhipu",
		kind:     Overloaded, retry: RetryYes,
		when: numbered(1305, 1312),
	},
	{
		name:     "zhipu-content",
		reason:   "1301 is a refusal of the content",
		provider: "zhipu",
		kind:     ContentPolicy, retry: RetryNo,
		when: numbered(1301),
	},
	{
		name:     "minimax-rate",
		reason:   "1002 and 1039 are rates of requests and of tokens",
		provider: "minimax",
		kind:     RateLimit, retry: RetryYes,
		when: numbered(1002, 1039),
	},
	{
		name:     "minimax-key",
		reason:   "1004 and 2049 are keys that are not accepted",
		provider: "minimax",
		kind:     Auth, retry: RetryNo,
		when: numbered(1004, 2049),
	},
}

// numbered holds for the vendor's own code numbers.
func numbered(codes ...int) func(*evidence) bool {
	return func(e *evidence) bool {
		for _, c := range codes {
			if e.numbers.Code == c {
				return true
			}
		}
		return false
	}
}
