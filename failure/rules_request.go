package failure

var (
	thinking = idea(
		`\bthinking\b|redacted_thinking|thought[_ ]?signature|encrypted[_ ]content|reasoning_content`,
		`\breasoning (?:item|block|content)|type 'reasoning'|'reasoning' item`,
	)
	tampered = idea(
		`signature|cannot be modified|cannot contain|invalid .{0,20}(?:redacted|thinking)`,
		`must (?:not )?be (?:modified|altered|passed back|preserved)|must start with|expected .{0,40}thinking`,
		`could not be (?:verified|decrypted|parsed)|decrypt|is missing|missing (?:in|from)`,
		`missing a? ?thought|without its required|passed back|remain as they were`,
	)

	toolPart = idea(
		`tool[_ ]?(?:use|result|call|response|message)s?\b|tool_\w+_id|tooluse|toolresult`,
		`function[_ ]?(?:call|response)(?:_output| parts?| turn|s)?\b|role:? ?['"]?tool\b|tool id`,
		`tools? messages?\b`,
	)
	unpaired = idea(
		`without (?:a |any )?.{0,40}(?:tool|result|response|call|block)`,
		`must (?:be followed|have a corresponding|be a response|follow|match|come|begin with a matching)`,
		`unexpected .{0,30}(?:tool|role)|did not (?:have|find)`,
		`(?:number of|amount of).{0,60}(?:equal|same|match|exceed)|(?:same|equal|matching) number`,
		`no (?:matching )?(?:tool|function)[_ ]?(?:call|output|use|result).{0,20}found`,
		`immediately (?:after|before|follow)|must be unique|duplicate|single result|multiple \W?tool`,
		`not followed by|no (?:corresponding|matching|preceding)|insufficient tool messages`,
		`comes? immediately|(?:tool|call)[\w ()'-]{0,60}(?:id|call)[\w ()'-]{0,60}not found`,
		`expected toolresult|(?:missing|orphan\w*|unmatched|unpaired).{0,40}(?:tool|result|response|call)`,
		`not found in (?:the )?(?:previous|preceding)|do(?:es)? not (?:match|correspond|pair)|after role`,
	)
	format = idea(
		`string should match|does not match (?:the )?pattern|match pattern|maximum length|must be in json`,
		`as json|valid json|json format`,
	)
)

// contradictionRules catch texts that name two faults as alternatives.
var contradictionRules = []rule{
	{
		name:   "says-two-things",
		reason: "a relay that leaves open whether the rate or the key is at fault: no wait and no login is known to help",
		kind:   Unknown, retry: RetryNo,
		when: says(idea(`rate[- ]?limit\w*[^.]{0,30}\bor\b[^.]{0,20}key\b[^.]{0,20}\b(?:invalid|wrong|incorrect)`)),
	},
	{
		name:   "certificate",
		reason: "a certificate does not become valid by waiting; whoever reports it, it is a fault of the way to the provider",
		kind:   Network, retry: RetryNo,
		when: says(certificate),
	},
	{
		name:   "wrong-protocol",
		reason: "two ends that speak different protocols: an address or a proxy setting is wrong, and stays so",
		kind:   Network, retry: RetryNo,
		when: all(unanswered, says(idea(
			`http response to https client|first record does not look like a tls|wrong[_ ]version[_ ]number`,
			`unsupported protocol scheme|only absolute urls|invalid url|failed to parse url`,
		))),
	},
	{
		name:   "page-with-success",
		reason: "a page that came with success, whatever it says: a login page or a proxy in the way",
		kind:   ServerError, retry: RetryNo,
		when: func(e *evidence) bool { return e.html && e.Status == 200 && e.verdict() == 200 && !e.InStream },
	},
}

// requestRules find faults of the history that a repair cures. Thinking comes
// first: its texts name tool blocks as landmarks.
var requestRules = []rule{
	{
		name:   "thinking-budget",
		reason: "a setting of thinking that does not fit the request: nothing in the history is damaged",
		kind:   InvalidRequest, retry: RetryNo,
		when: says(idea(
			`budget_tokens|thinking[._ ]budget|thinking (?:may|can) ?not be enabled`,
			`(?:thinking|reasoning)\w* (?:is|are) not supported|does not support (?:thinking|reasoning)`,
		)),
	},
	{
		name:   "thinking-altered",
		reason: "a thinking block or its signature was altered, dropped, or made by another model",
		kind:   ThinkingSignature, retry: RetryNo,
		when: either(says(thinking, tampered), coded("invalid_encrypted_content")),
	},
	{
		name:   "tool-arguments",
		reason: "the arguments or the id of a call are malformed: pairs are whole, the text in one of them is not",
		kind:   InvalidRequest, retry: RetryNo,
		when: all(says(toolPart, format), not(says(idea(`without|corresponding|must be followed|unexpected`)))),
	},
	{
		name:   "tool-pairing",
		reason: "calls and results must stand in pairs, each vendor says so in other words",
		kind:   ToolPairing, retry: RetryNo,
		when: says(toolPart, unpaired),
	},
	{
		name:   "unknown-parameter",
		reason: "a parameter's name is at fault, so that the size which the name speaks of is not",
		kind:   InvalidRequest, retry: RetryNo,
		when: either(
			says(idea(
				`(?:unsupported|unknown|unrecognized|unexpected) (?:parameter|field|argument|variant|name)`,
				`extra inputs are not permitted|is not supported with this model|unexpected keyword`,
			)),
			coded("unsupported_parameter", "unknown_parameter")),
	},
}

var (
	mediaPart = idea(
		`\bimages?\b|image_url|\bpdfs?\b|\bpictures?\b|\bmedia\b|\bvideos?\b|\baudio\b|multimodal`,
		`\bdocuments?\b|\bthe file\b|\battachments?\b|图片|图像|文档|视频`,
	)
	mediaBig = idea(
		`(?:image|pdf|picture|media|video|audio|document|attachment|图片|图像)s?\b?[^;]{0,120}?`+oneOf(
			`exceeds?\b|too (?:large|big|many)|\d > \d|(?:larger|bigger|greater) than|maximum of`,
			`max(?:imum)? (?:allowed )?(?:size|pixels)|over the|above the|is limited|at most|no more than|过大|超过|超出|太大`,
		),
		oneOf(`maximum of|at most|up to|too many|too much|too large|exceeds?|more than`)+` (?:\d+ )?(?:pdf |image |document |\d+ )*(?:pages|images?|media|documents|videos?|image|pdf|pixels)\b`,
	)
	mediaBad = idea(
		oneOf(`image|pdf|picture|media|video|audio|document|attachment|content type|图片|图像`)+`s?\b?[^;]{0,120}?`+oneOf(
			`unsupported|not supported|not valid|invalid|corrupt|damaged|could not|couldn't|cannot|can't`,
			`unable|fail|not a valid|password|encrypted|only supported|does not (?:represent|match|support)`,
			`appears to be|should be|decode|download|unreadable|malformed|错误|失败|不支持`,
		),
		`unable to (?:download|fetch|read|process) the file|missing data required for image`,
		oneOf(
			`unsupported|not supported?|invalid|corrupt\w*|could not|couldn't|cannot|can't|unable to|fail\w*`,
			`does(?: not|n't) support|password|decod\w*|download\w*|support|malformed`,
		)+`[^;]{0,60}?`+oneOf(`image|pdf|picture|media|video|audio|document|vision|multimodal|attachment|图片|图像`),
	)
)

// mediaRules find one image or document that is to blame.
var mediaRules = []rule{
	{
		name:   "media-fetch-timeout",
		reason: "the provider could not fetch a linked file in time: the only media fault that may pass by itself",
		kind:   MediaInvalid, retry: RetryYes,
		when: all(says(idea(`(?:timeout|timed out)[^.]{0,30}(?:download|fetch)|(?:download|fetch)[^.]{0,60}(?:timeout|timed out)`)),
			either(coded("invalid_image_url"), says(mediaPart))),
	},
	{
		name:   "media-unsupported",
		reason: "the format or the model's eyes are at fault; such texts often recite the size limits too",
		kind:   MediaInvalid, retry: RetryNo,
		when: all(either(says(idea(
			`unsupported (?:image|media|document|file)|not a (?:multimodal|vision) model`,
			`(?:image|media|pdf|vision)[\w ]{0,20} (?:is|are) (?:only |not )supported`,
			`(?:support|accept)s? (?:image|media|vision|multimodal|pdf|audio)`,
		)),
			coded(
				"invalid_image_format", "image_parse_error", "unsupported_image_media_type",
				"image_content_policy",
			)), either(says(mediaPart), says(idea(`vision|multimodal`)))),
	},
	{
		name:   "media-too-large",
		reason: "one file is over a limit of bytes, pixels, pages or count: those numbers are no tokens",
		kind:   MediaTooLarge, retry: RetryNo,
		when: all(says(mediaPart, mediaBig), not(says(mediaPhraseVeto))),
	},
	{
		name:   "media-invalid",
		reason: "one file cannot be read, or is not what it is declared to be",
		kind:   MediaInvalid, retry: RetryNo,
		when: all(says(mediaPart, mediaBad), not(says(mediaPhraseVeto))),
	},
}

// mediaPhraseVeto keeps out texts in which documents are manuals and images are
// those of containers.
var mediaPhraseVeto = idea(
	`文档。|(?:refer to|read|consult|see|check|review)[\w ]{0,40} documents?\b|document(?:ation|ed)|docker`,
	`container|prompt is too long|total tokens|max(?:imum)? \w+ tokens`,
	`content[_ ](?:filter|policy|management)|api[_ ]key|rate limit`,
)

var (
	refused = idea(
		`content[_ ](?:filter(?:ing|ed)?|management|policy|moderation|risk|exists risk|security)`,
		`content exists risk|usage polic|acceptable use|responsible ?ai|moderation|flagged (?:for|as|by)`,
		`was flagged|violat\w+ (?:of |our |the |\w+'s )*(?:\w+ )?(?:polic|guideline|terms|content)|violative`,
		`safety (?:reasons|filter|system|settings|policy|guard)|considered high risk`,
		`(?:prompt|response|request|output|input|content|candidate)[\w ]{0,30} (?:was |were |is |has been |got )?(?:blocked|rejected|filtered)[^.]{0,60}`+oneOf(`safety|polic|content|filter|moderat|prohibited|harm|sensitive|risk`),
		`prompt was blocked|output blocked|content blocked by`,
		`blockreason["']: ?["']?\w|blocked due to (?:recitation|safety|prohibited|blocklist|language|other)|inappropriate content`,
		`harmful content|unsafe content|prohibited content|sensitive (?:content|information|data|words?)|(?:input|output) new_sensitive`,
		`guardrail (?:intervened|blocked)|敏感|违规|不安全|不合规|涉黄|风险内容|审核`,
	)
	settingPhrase = idea(`data[_ ]polic|privacy`)
)

// policyRules find refusals of the content.
var policyRules = []rule{
	{
		name:   "content-policy-code",
		reason: "finish reasons and codes that mean a refusal, whatever else the answer holds",
		kind:   ContentPolicy, retry: RetryNo,
		when: coded(
			"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation",
			"data_inspection_failed", "DataInspectionFailed", "SAFETY", "RECITATION", "PROHIBITED_CONTENT",
			"BLOCKLIST", "SPII", "IMAGE_SAFETY", "refusal", "moderation_blocked", "sensitive_words_detected",
			"content_moderation", "guardrail_intervened", "cyber_policy", "bio_policy", "content_blocked",
		),
	},
	{
		name:   "content-policy",
		reason: "the words say that a policy refused the content; an invitation to change the prompt is none to repeat it",
		kind:   ContentPolicy, retry: RetryNo,
		when: all(says(refused), not(says(settingPhrase))),
	},
}

var certificate = idea(
	`x509|certificate (?:verify failed|signed by unknown|has expired|is not (?:valid|trusted))`,
	`(?:self[- ]signed|expired|invalid|unknown|untrusted) (?:peer )?cert`,
	`issuer cert|cert\w*_(?:verify|has_expired|authority)|sslcertverif`,
	`unable_to_(?:verify|get)_\w*(?:signature|issuer)|depth_zero_self|self_signed_cert|err_tls_cert`,
	`verify (?:the )?(?:first )?certificate|altname|hostname mismatch`,
)
