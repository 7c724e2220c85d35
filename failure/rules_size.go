package failure

// headroom is the least room for an answer that is worth asking for: below it
// the history must shrink, above it a lower max_tokens is the smaller repair.
const headroom = 1024

var (
	overflow = idea(
		oneOf(`prompt|input|inputs|context|conversation|history|messages?|request|query|text|chat`)+`\b[^;]{0,80}?\b`+oneOf(
			`too long|too large|too big|too many tokens|(?:longer|larger|greater|more|bigger) than|exceed\w*`,
			`overflow\w*|surpass\w*|beyond|(?:do|does)(?: not|n't) fit`,
			`must (?:be|have) (?:less|fewer|<=|at most|shorter)|over the (?:limit|maximum)|out of range`,
		),
		oneOf(
			`exceed\w*|over|beyond|reach\w*|longer than|larger than|greater than|surpass\w*|>=?|overflow\w*`,
			`than|above`,
		)+`\W[^;]{0,60}?`+oneOf(
			`context|token limit|max_seq|sequence length|prompt length|input length|n_ctx|number of tokens`,
			`input tokens|window`,
		),
		`supports? (?:only )?up to|input token count`,
		`max(?:imum)? (?:context|prompt|input|sequence)[_ ]?(?:length|size|window|tokens)`,
		`context[_ ](?:length|window|size)(?:[_ ]limit)?[_ ](?:exceeded|overflow|full|is full)`,
		`ran out of (?:room|context)|range of input length|prompt_too_long|context_(?:length|window)_exceeded`,
		`too many (?:input |prompt |total )?tokens`,
		`reduce (?:the )?(?:length|size|number) of (?:the |your |tokens in |input )*(?:messages?|prompt|input|conversation|context)`,
		`shorten (?:the |your )?(?:prompt|input|messages?)`,
		`(?:上下文|输入|prompt|提示词|消息|内容|tokens?)[^。]{0,24}?(?:过长|超长|太长|超过|超出|超限|大于|最大|限制)|长度(?:超|过)`,
		`超过[^。]{0,20}(?:上下文|长度|token)`,
	)
	aboutWindow = idea(`token|context|prompt|length|window|n_ctx|seq|input is|input length|too long|长|上下文`)
	outputCap   = idea(
		`max(?:imum)?[_ ](?:completion[_ ]|output[_ ]|new[_ ]|tokens to )?(?:tokens?|sample)|maxoutputtokens`,
		`output tokens|num_predict`,
	)
	overCap = idea(
		`exceeds?\b|(?:greater|larger|more|higher) than|less than|valid range|too (?:large|high|big)|must be`,
		`should be|at most|between|no more than|above|\d >|range|超过|范围|大于`,
	)
	inBytes = idea(
		`(?:exceed|limit|max|too large|too big|larger)[^;]{0,80}\b(?:bytes?|\d+ ?[mk]i?b)\b`,
		`\b(?:bytes?|\d+ ?[mk]i?b)\b[^;]{0,60}(?:exceed|limit|maxim|too large|>)|entity too large`,
		`(?:request|payload|body|content)[\w ]{0,20} (?:is )?too (?:large|big)`,
		`exceeds the maximum (?:allowed )?size|maximum (?:request|body|payload|allowed) size|payload size`,
		`size limit|length less than or equal to|body size|请求体`,
	)
	inTokens  = idea(`token|context|window|prompt is|input length`)
	longField = idea(`string too long|string_above_max_length|maximum string length`)
	bodyField = idea(
		`\.?(?:content|text|output|input|arguments|prompt|instructions)(?:\[\d+\])?(?:\.(?:text|content))?'?:? string too long`,
		`string too long[^;]*(?:content|text)`,
	)
)

// sizeRules decide what is too long, and against what.
var sizeRules = []rule{
	{
		name:   "field-too-long",
		reason: "one text field of a message has too many characters: a limit on the body, cured by a cut",
		kind:   RequestTooLarge, retry: RetryNo,
		when: says(longField, bodyField),
	},
	{
		name:   "name-too-long",
		reason: "an id, a name or a list of the request is too long: that is form, not size",
		kind:   InvalidRequest, retry: RetryNo,
		when: either(says(longField), says(idea(
			`'tools': array too long|array_above_max_length`,
			`(?:id|name|description|function)\b[\w'.\]\[ ]{0,20}(?:too long|at most \d+ char|maximum length of)`,
		))),
	},
	{
		name:   "body-too-large",
		reason: "bytes of the body against a limit of the edge; the same words with tokens in them mean the window",
		kind:   RequestTooLarge, retry: RetryNo,
		when: all(either(says(inBytes), coded("request_too_large", "payload_too_large")), not(says(inTokens))),
	},
	{
		name:   "less-output-fits",
		reason: "the input leaves room worth using, so a lower max_tokens cures it",
		kind:   MaxTokensOverflow, retry: RetryNo,
		when: func(e *evidence) bool {
			n := e.numbers
			sum := n.InputTokens > 0 && n.MaxTokens > 0 && n.Limit-n.InputTokens >= headroom
			return (sum || n.InputAtLeast > 0 && n.MaxTokens > 0) && (overflow().MatchString(e.text) || outputCap().MatchString(e.text))
		},
	},
	{
		name:   "output-cap",
		reason: "max_tokens alone is above what the model may write",
		kind:   MaxTokensOverflow, retry: RetryNo,
		when: func(e *evidence) bool {
			n := e.numbers
			return outputCap().MatchString(e.text) && overCap().MatchString(e.text) && n.InputTokens == 0 && n.Requested == 0 &&
				!inputBlamed().MatchString(e.text) && !belowFloor().MatchString(e.text) && e.verdict() != 429
		},
	},
	{
		name:   "input-too-long",
		reason: "the input is longer than the window, or the sum is and nothing tells its parts",
		kind:   ContextOverflow, retry: RetryNo,
		when: either(all(says(overflow, aboutWindow), not(either(lateOnly, says(belowFloor), says(notTheInput)))), coded(
			"context_length_exceeded", "exceed_context_size_error", "tokens_limit_reached", "prompt_too_long",
			"model_max_prompt_tokens_exceeded", "context_window_exceeded", "model_context_window_exceeded",
			"max_prompt_tokens_exceeded", "input_too_long", "ContextWindowExceededError", "string_too_long",
		)),
	},
	{
		name:   "input-too-many-characters",
		reason: "characters of the input against a limit: a shorter history cures it as well",
		kind:   ContextOverflow, retry: RetryNo,
		when: func(e *evidence) bool { return e.numbers.Chars > e.numbers.LimitChars && e.numbers.LimitChars > 0 },
	},
	{
		name:   "body-too-large-status",
		reason: "413 without a word about tokens",
		kind:   RequestTooLarge, retry: RetryNo,
		when: all(answered(413), not(says(inTokens))),
	},
	{
		name:   "window-by-status",
		reason: "413 that speaks of tokens or context",
		kind:   ContextOverflow, retry: RetryNo,
		when: answered(413),
	},
}

// lateOnly holds for texts in which a time, not a length, was exceeded.
func lateOnly(e *evidence) bool {
	return late().MatchString(e.text) && !windowNamed().MatchString(e.text) && e.numbers.Limit == 0
}

var (
	windowNamed = idea(`token|context[ _](?:length|window|size|limit)|prompt`)
	notTheInput = idea(`stop sequences|\b\w+_key\b|header|temperature|\btools?: too many`)
	belowFloor  = idea(`must be (?:greater|positive|at least)|greater than or equal`)
)

// inputBlamed tells texts that blame the input although they name max_tokens.
var inputBlamed = idea(
	`input length|inputs? tokens|prompt (?:is|contains|token|length|and)|(?:in|of) the messages`,
	`context (?:length|window|limit|size)|total number of tokens|your prompt`,
)
