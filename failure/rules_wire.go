package failure

import "net/http"

var (
	gatewayLink = idea(
		`upstream connect error|disconnect/reset before headers|(?:unable to|failed to|could not) round-trip`,
		`provider (?:disconnected|returned an empty)`,
	)
	ownFault = idea(
		`error (?:occurred|has occurred|was encountered)`,
		`(?:server|service|we|provider|system|backend)(?: has| had| have)?(?: \w+)? (?:an? )?(?:internal )?error`,
		`internal (?:server )?error|internal_error occurred|something went wrong|unexpected error`,
		`upstream (?:request )?(?:failed|error)|bad gateway|server_error\b|server had an error`,
		`an unknown error|web server is returning an unknown|model (?:has )?crashed|model is unloaded`,
		`(?:llm server )?loading model|runner process|malformed_function_call|unexpected_tool_call`,
		`malformed_response|returned an empty response|empty response from|服务(?:器)?(?:内部)?(?:错误|异常)`,
		`系统(?:错误|异常)|内部错误|未知错误|网络错误，`,
	)
	noMemory = idea(
		`requires more system memory|out of memory|unable to allocate|cudamalloc|failed to allocate`,
		`insufficient memory|not enough (?:gpu |system |v?ram )?memory|error loading model`,
	)
	connect = idea(
		`connect(?:ion)? ?time(?:d )?-?out|connecttimeout|timeout while connecting|tls handshake timeout`,
		`handshake(?: operation)? timed out|dial tcp[^;]*(?:timeout|timed out)|etimedout|connection timed out`,
		`connect etimed|waiting for connection`,
	)
	late = idea(
		`time[- ]?d? ?-?out\b|timed_out|timedout|timeouterror|timeoutexception|deadline[ _]exceeded`,
		`took too long|no (?:response|data|chunk|event|activity)[\w ]{0,20} (?:within|for|after|in) \d`,
		`stalled|idle time|readtimeout|did(?: not|n't) respond in time`,
		`the operation was aborted(?: due to timeout)?|超时`,
	)
	broken = idea(
		`econnreset|econnrefused|econnaborted|epipe|broken pipe|enotfound|eai_again|ehostunreach|enetunreach`,
		`enetdown|socket`,
		`connection (?:was |is |has been )?`+oneOf(`error|reset|refused|aborted|closed|lost|dropped|failed|terminated|broken|interrupted`),
		`connection attempt failed`,
		`(?:could not|couldn't|cannot|can't|unable to|failed to) (?:connect|establish|reach|resolve)`,
		`connection (?:to \S+ )?(?:failed|error)`,
		`network (?:connection|error|is unreachable|request failed|issue|changed)|no route to host`,
		`no such host|getaddrinfo|name resolution|name or service not known|nodename nor servname`,
		`resolve host|dns|fetch failed|load failed|\b(?:read|connect|write|protocol)error\b`,
		`connection attempts? failed|dial (?:tcp|udp)|lookup \S+ on|failed to fetch|terminated\b`,
		`server disconnected|peer closed|closed (?:the |an? )?(?:idle )?(?:connection|unexpectedly|before)`,
		`without sending|incomplete (?:chunked )?(?:read|message|body|response)|incompleteread`,
		`chunkedencoding|invalid chunk|remoteprotocol|unexpected eof|\beof\b`,
		`premature(?:ly)? (?:close|end|eof|ended)`,
		`stream (?:disconnected|closed|ended|cut|truncated|was reset|error: stream id|interrupted|terminated)`,
		`response body closed|goaway|rst_stream|err_http2|http/?2 (?:stream|protocol|error)|h2 protocol`,
		`nghttp2|internet connection|no internet|offline`,
		`err_(?:network|internet|connection|socket|proxy|stream)|proxy (?:connection|tunnel)`,
		`tunnel(?:ing)? (?:socket|connection)|actively refused|hang up|ssl(?:v3)?[_ :]|tls[_ :]`,
		`error decoding response body|stream decode error|unexpected end of (?:json|form|file|data|stream)`,
		`connectionerror|apiconnectionerror|连接(?:被)?(?:重置|失败|超时|中断|关闭|错误)|网络(?:连接|异常|错误|不可达)`,
	)
	cancelled = idea(
		`abort(?:ed|error)\b|request was aborted|cancell?ed(?:error)?\b|context canceled`,
		`interrupted by (?:the )?user|user (?:aborted|interrupted)|keyboardinterrupt|取消`,
	)
	notJSON = idea(
		`unexpected token '?<|invalid character '<'|"?<!doctype|expecting value: line 1|is not valid json`,
		`(?:invalid|not|non)[- ]json (?:response|body|answer)`,
		`(?:failed|unable) to parse (?:the )?(?:json|response)|unexpected content[- ]type|instead of json`,
		`could not parse response|cannot unmarshal|looking for beginning of value`,
	)
)

// wireRules read what clients and gateways say about connections. Most need an
// unanswered request: with a failure status the same words belong to a gateway.
var wireRules = []rule{
	{
		name:   "no-memory",
		reason: "a local server that cannot hold the model: another model is the cure, not another try",
		kind:   ServerError, retry: RetryNo,
		when: says(noMemory),
	},
	{
		name:   "model-not-up",
		reason: "a model that crashed, is down or is being loaded: up again at one of the next tries, whatever the status",
		kind:   ServerError, retry: RetryYes,
		when: says(idea(
			`model (?:has )?crashed|model is (?:unloaded|loading|not loaded)|loading model`,
			`(?:is|currently) loading\b|degraded function|(?:function|model|backend) is (?:currently )?down\b`,
			`runner process`,
		)),
	},
	{
		name:   "gateway-lost-upstream",
		reason: "the edge answered for an upstream that it lost: the broken connection is not ours",
		kind:   ServerError, retry: RetryYes,
		when: says(gatewayLink),
	},
	{
		name:   "reset-outright",
		reason: "a code of the socket decides before the words around it: 'aborted' beside it is no cancel",
		kind:   Network, retry: RetryYes,
		when: all(unanswered, either(says(connect), says(idea(`econn|epipe|enotfound|eai_again|connection aborted|connectionreset`)))),
	},
	{
		name:   "server-says-so",
		reason: "the server reports its own fault, inside a stream or with a status of success",
		kind:   ServerError, retry: RetryYes,
		when: all(unanswered, either(says(ownFault), coded(
			"server_error", "api_error", "internal_server_error", "InternalServerException",
			"ModelStreamErrorException", "INTERNAL", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL",
			"error_finish",
		)),
			not(says(idea(`stream id|ssl|eof|certificate|unreachable|fetch failed|connection (?:reset|refused|error)`)))),
	},
	{
		name:   "deadline",
		reason: "no answer in time; the time-out signal of the web platform prints as an aborted operation",
		kind:   Timeout, retry: RetryYes,
		when: all(either(unanswered, gatewayWaited), says(late), not(says(idea(`connection (?:was )?(?:reset|refused)`)))),
	},
	{
		name:   "page-instead-of-answer",
		reason: "a parser met a page: a wrong path, a login page or a proxy, none of which goes away",
		kind:   ServerError, retry: RetryNo,
		when: all(unanswered, says(notJSON)),
	},
	{
		name:   "connection",
		reason: "connect, name, handshake and broken streams: nothing was answered, so a retry is safe",
		kind:   Network, retry: RetryYes,
		when: all(unanswered, says(broken)),
	},
	{
		name:   "cancelled",
		reason: "the request was cancelled on this side; what cancelled it, the text does not tell",
		kind:   Aborted, retry: RetryNo,
		when: all(unanswered, says(cancelled)),
	},
}

var (
	badForm = idea(
		`\binvalid\b|unsupported|not supported|(?:does|do)(?: not|n't) support|unknown|unexpected`,
		`extra inputs|\bmissing\b|required|malformed|must (?:be|not|start|have|match|contain|include|end)`,
		`cannot|can't|should (?:be|match|have)|not permitted|not allowed|does not match|deserialize`,
		`validation|at least|参数|格式|非法|缺少|不支持`,
	)
)

// codeRules go by the type or code, where the words did not decide.
var codeRules = []rule{
	{
		name:   "load-code",
		reason: "a code that names load",
		kind:   Overloaded, retry: RetryYes,
		when: either(loadCode, all(coded("UNAVAILABLE"), answered(0, 200, 503))),
	},
	{
		name:   "rate-code",
		reason: "a code that names a rate",
		kind:   RateLimit, retry: RetryYes,
		when: rateCode,
	},
	{
		name:   "missing-code",
		reason: "what can be missing on these endpoints is the model",
		kind:   ModelNotFound, retry: RetryNo,
		when: coded(
			"not_found_error", "resource_not_found_error", "ResourceNotFoundException", "NOT_FOUND",
			"NotFoundError",
		),
	},
	{
		name:   "permission-code",
		reason: "a type that names permission, in a body without a telling word",
		kind:   Permission, retry: RetryNo,
		when: all(coded("permission_error", "PermissionDenied", "forbidden"), not(answered(401))),
	},
	{
		name:   "deadline-code",
		reason: "a code that names a deadline",
		kind:   Timeout, retry: RetryYes,
		when: coded(
			"timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException", "request_timeout",
			"gateway_timeout", "timeout",
		),
	},
	{
		name:   "invalid-code",
		reason: "a code that blames the request: it outweighs a relay's 500, but not a status that says to wait",
		kind:   InvalidRequest, retry: RetryNo,
		when: all(coded(
			"invalid_request_error", "INVALID_ARGUMENT", "ValidationException", "invalid_request",
			"InvalidParameter", "invalid_parameter_error", "BadRequestError", "bad_request",
			"FAILED_PRECONDITION", "unsupported_value", "invalid_value", "MissingParameter", "invalid_prompt",
			"invalid_params",
		),
			not(either(answered(401, 403, 404, 408, 409, 413, 429, 502, 504, 529), func(e *evidence) bool { return e.html }))),
	},
	{
		name:   "server-code",
		reason: "a code of the server's own fault",
		kind:   ServerError, retry: RetryYes,
		when: all(coded(
			"server_error", "api_error", "internal_error", "internal_server_error", "InternalServerException",
			"INTERNAL", "ModelErrorException", "ModelStreamErrorException",
			"ABORTED",
		),
			not(answered(400, 401, 403, 404, 422, 429, 504))),
	},
	{
		name:   "ended-in-error",
		reason: "a stream that ends with the finish reason 'error' and no word why",
		kind:   ServerError, retry: RetryYes,
		when: func(e *evidence) bool { return unanswered(e) && finishError().MatchString(e.text) },
	},
}

// gatewayWaited holds when a gateway answered with a fault of its own, unless it
// could not even connect.
func gatewayWaited(e *evidence) bool { return e.verdict() >= 500 && !connect().MatchString(e.text) }

var finishError = idea(`finish_reason["']?: ?["']?error|response\.failed|finishreason["']?: ?["']?(?:other|malformed)`)

// statusRules go by the status alone: nothing else told.
var statusRules = []rule{
	{
		name:   "auth-status",
		reason: "401, and 407 from a proxy on the way: a login is wanted",
		kind:   Auth, retry: RetryNo,
		when: answered(http.StatusUnauthorized, http.StatusProxyAuthRequired),
	},
	{
		name:   "forbidden-status",
		reason: "403, and 451 for legal reasons",
		kind:   Permission, retry: RetryNo,
		when: answered(http.StatusForbidden, http.StatusUnavailableForLegalReasons),
	},
	{
		name:   "missing-status",
		reason: "a 404 without a cause: the path or the model, nothing else is addressed",
		kind:   ModelNotFound, retry: RetryNo,
		when: answered(http.StatusNotFound, http.StatusGone),
	},
	{
		name:   "rate-status",
		reason: "a 429 without a cause",
		kind:   RateLimit, retry: RetryYes,
		when: answered(http.StatusTooManyRequests),
	},
	{
		name:   "overloaded-status",
		reason: "529 is only used for load",
		kind:   Overloaded, retry: RetryYes,
		when: answered(529),
	},
	{
		name:   "closed-status",
		reason: "499: this side closed the request before the answer",
		kind:   Aborted, retry: RetryNo,
		when: answered(499),
	},
	{
		name:   "timeout-status",
		reason: "the deadlines of servers and edges; 598 and 599 are those of some proxies",
		kind:   Timeout, retry: RetryYes,
		when: answered(http.StatusRequestTimeout, http.StatusGatewayTimeout, 522, 524, 598, 599),
	},
	{
		name:   "certificate-status",
		reason: "the edge cannot trust its origin, which no waiting cures",
		kind:   Network, retry: RetryNo,
		when: answered(525, 526),
	},
	{
		name:   "conflict-status",
		reason: "a conflict of two requests, or one that came too early, is gone at the next try",
		kind:   ServerError, retry: RetryYes,
		when: answered(http.StatusConflict, http.StatusTooEarly),
	},
	{
		name:   "not-implemented-status",
		reason: "the server will not learn it by being asked again",
		kind:   ServerError, retry: RetryNo,
		when: answered(http.StatusNotImplemented, http.StatusHTTPVersionNotSupported),
	},
	{
		name:   "server-status",
		reason: "any other fault of the server",
		kind:   ServerError, retry: RetryYes,
		when: func(e *evidence) bool { return e.verdict() >= 500 },
	},
	{
		name:   "client-status",
		reason: "any other fault of the request",
		kind:   InvalidRequest, retry: RetryNo,
		when: func(e *evidence) bool { return e.verdict() >= 400 },
	},
	{
		name:   "says-invalid",
		reason: "words of a wrong request, in a text without a status",
		kind:   InvalidRequest, retry: RetryNo,
		when: all(unanswered, says(badForm)),
	},
	{
		name:   "relay-code",
		reason: "a relay that only says that something behind it failed",
		kind:   ServerError, retry: RetryYes,
		when: coded("upstream_error", "bad_gateway"),
	},
	{
		name:   "redirected",
		reason: "the address is not that of an API, and stays so",
		kind:   ServerError, retry: RetryNo,
		when: func(e *evidence) bool { return e.Status >= 300 && e.Status < 400 },
	},
	{
		name:   "foreign-answer",
		reason: "success with a page, with nothing, or with foreign content: something stands in the way, and will again",
		kind:   ServerError, retry: RetryNo,
		when: func(e *evidence) bool { return e.html || e.Status >= 200 && e.Status < 300 && !e.InStream },
	},
}
