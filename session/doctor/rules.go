package doctor

// rules says of each rule how bad it is, what it is called, what follows from
// it, and how it is healed.
var rules = map[Rule]about{
	TornLine: {Breaks, "lines that are no whole record", "every agent skips such a line, with all that is in it", map[Format]string{
		Claude: "Claude Code guesses where the thread goes on if it was a link of it",
		Pi:     "pi loses everything before it, since it was a link of the thread",
	}, "the line is left out; the original keeps it"},
	FusedLine: {Breaks, "lines that hold more than one record", "every agent skips such a line, with the whole records that are in it", nil,
		"each whole record gets a line of its own; the torn part is left out and stays in the original"},
	NoLineEnd: {Risky, "no line break at the end", "the next record that is appended lands on the same line, and both are lost", nil, "a line break is added"},
	ByteOrderMark: {Breaks, "a byte order mark", "the first line does not parse", map[Format]string{
		Codex: "Codex refuses to open the file", Pi: "pi refuses to open the file",
	}, "the three bytes are taken away"},
	BadUTF8: {Breaks, "bytes that are no UTF-8", "the API answers 400 when such bytes are sent", map[Format]string{
		Codex: "Codex refuses to open the file", Claude: "Claude Code mends them on resume",
	}, "each such byte becomes U+FFFD"},
	HalfSurrogate: {Breaks, "halves of surrogate pairs", "the API answers 400: no low surrogate in string", map[Format]string{
		Claude: "Claude Code mends them on resume",
	}, "each half becomes U+FFFD"},
	NUL: {Risky, "NUL characters in text", "some servers take a NUL for the end of the request and answer 400: not valid JSON", nil, "each NUL becomes U+FFFD"},
	NULBytes: {Breaks, "NUL bytes in the file", "no agent reads such a line; a crash or a full disk leaves such holes", nil,
		"the bytes are taken away; inside of text they become U+FFFD"},
	ControlCharacter: {Breaks, "bare control characters", "no agent reads such a line: JSON wants them escaped", nil, "they are escaped"},
	WrongChecksum: {Breaks, "lines with a wrong checksum", "daruma skips such a line, with all that is in it", nil,
		"the line is whole, so it gets its right checksum: read it in the diff before you trust it"},
	LargeLine: {Risky, "lines of more than 64 MB", "agents that read line by line give up here", nil, ""},

	WrongShape: {Breaks, "records of the wrong shape", "agents fail on such a record or skip it", nil,
		"what cannot be read is left out; the original keeps it"},
	MissingHeader: {Breaks, "the header is missing", "", map[Format]string{
		Codex: "Codex refuses the file: it does not start with session_meta", Pi: "pi takes the file for a new session",
	}, "the header is put first; what nothing in the file tells is filled with plain values"},
	DuplicateRecord: {Breaks, "records with one id", "the last one holds, so that what hangs on the other is lost or the thread runs in a circle", nil,
		"a plain copy is left out; a different record gets an id of its own and joins the thread"},
	MissingParent: {Breaks, "links that lead nowhere", "", map[Format]string{
		Claude: "Claude Code guesses where the thread goes on", Pi: "pi loses everything before it",
	}, "the record is linked to the one before it in the file"},
	Cycle: {Breaks, "links that run in a circle", "", map[Format]string{
		Claude: "Claude Code cuts the thread there, or guesses", Pi: "pi dies with a RangeError after some seconds",
	}, "the record is linked to the one before it in the file"},
	OutOfOrder: {Breaks, "records in the wrong order", "the last record is taken for the end of the thread, so what hangs on it is lost", nil,
		"each record is put behind the one that it hangs on"},
	BrokenCompaction: {Breaks, "compactions that are not whole", "what was said before it is lost", nil, ""},
	ForkBase:         {Breaks, "the parent of this fork", "Codex cannot resume a fork without the bytes of its parent", nil, ""},
	ForkChild:        {Info, "forks of this session", "", nil, ""},

	WrongRole:    {Breaks, "messages of an unknown role", "the API answers 400: unexpected role", nil, "the role becomes what its record says"},
	EmptyMessage: {Breaks, "messages without content", "the API answers 400: messages must have non-empty content", nil, "the message is left out"},
	EmptyText: {Breaks, "empty texts", "the API answers 400: text content blocks must be non-empty", map[Format]string{
		Pi: "pi leaves them out", Claude: "Claude Code leaves out messages of nothing else",
	}, "the text is left out; in a result it becomes (no output)"},
	NoObject: {Breaks, "inputs of calls that are no JSON object", "the API answers 400: input should be a valid dictionary", nil,
		"the input is kept inside of an object, under INVALID_JSON"},
	BadCallID: {Breaks, "call ids that the API refuses", "the API answers 400: ids are letters, digits, _ and -", nil,
		"call and result get an id that is allowed"},
	BadToolName: {Breaks, "tool names that the API refuses", "the API answers 400: names are letters, digits, _ and -, at most 128", nil,
		"what is not allowed becomes _; a call without a name becomes one of unknown_tool"},
	EmptyError: {Breaks, "error results without words", "the API answers 400: content cannot be empty if is_error is true", nil, "the result becomes (no output)"},
	Unsigned: {Breaks, "thinking without signature", "the API answers 400: signature: field required", map[Format]string{
		Pi: "pi sends it as plain text", Codex: "without encrypted content the server looks for an item that it never stored",
	}, "the thinking is left out: without a signature nobody takes it"},
	Altered: {Breaks, "thinking that was altered", "the API answers 400: invalid signature in thinking block, or thinking blocks cannot be modified", nil,
		"the thinking is left out: an altered one is never taken"},
	Foreign: {Risky, "thinking of another model", "the API answers 400: invalid signature in thinking block", map[Format]string{
		Claude: "Claude Code leaves it out on resume", Pi: "pi leaves it out on resume", Daruma: "daruma leaves it out of what it sends",
	}, "the thinking is left out: only the model that wrote it takes it back"},
	SplitThinking: {Breaks, "thinking apart from what it led to", "the API answers 400: a message cannot end with thinking, and the thinking before a call must stay with it",
		map[Format]string{Codex: "the API answers 400: reasoning without its required following item"},
		"where the rest of its answer follows it is joined with it, else left out"},
	RefusedThinking: {Breaks, "thinking that the API refused before", "the last request of this session was refused for its thinking; so will the next one be", nil,
		"all thinking before that point is left out"},
	Misplaced: {Breaks, "blocks in the wrong role", "the API answers 400: such a block cannot stand there", nil, "the block becomes a text that tells what it was"},
	BrokenMedia: {Breaks, "images and documents that nobody can read", "the API answers 400: could not process image, and again with every later message", nil,
		"the medium becomes a text that says what was there"},
	WrongMediaType: {Breaks, "media with the wrong type", "the API answers 400: the image does not match its media type", nil, "the type becomes that of the bytes"},
	LargeMedia:     {Breaks, "media that are too large", "the API answers 400: image or document exceeds the maximum, and again with every later message", nil, "the medium becomes a text that says what was there"},
	ManyMedia:      {Breaks, "too many media", "the API answers 400: too much media", nil, "the oldest become texts that say what was there"},
	LargeText:      {Breaks, "texts larger than a context window", "the API answers 400: prompt is too long, and compaction cannot help", nil, "beginning and end are kept, with the number of characters between; the original keeps the whole"},
	LargeSession:   {Risky, "a conversation larger than a context window", "the API answers 400: prompt is too long; agents compact first if they can", nil, ""},
	CacheMark: {Breaks, "marks of the cache that cannot be sent", "the API answers 400: a maximum of 4 blocks with cache_control may be provided, and none with thinking", nil,
		"the stored marks are taken out; the agent sets its own"},
	ExtraMember: {Breaks, "blocks with members that the API does not know", "the API answers 400: extra inputs are not permitted", nil,
		"the member is taken out; what the model wrote stays, since a later API may know it"},
	ErrorAsAnswer: {Risky, "error messages stored as the model's words", "the error is sent to the model as if it had said so", nil, "the record is marked as what it is, or left out, and no longer sent"},

	DuplicateCall: {Breaks, "call ids that are used twice", "the API answers 400: tool_use ids must be unique", map[Format]string{
		Codex: "Codex sends both",
	}, "a plain copy is left out; another call gets an id of its own, and so does its result"},
	Orphan: {Breaks, "results without their call", "the API answers 400: unexpected tool_use_id found in tool_result blocks", map[Format]string{
		Claude: "Claude Code leaves them out on resume", Codex: "Codex leaves them out on resume",
	}, "the result becomes a text that says what it was"},
	SecondResult: {Breaks, "calls with more than one result", "the API answers 400: each tool_use must have a single result", map[Format]string{
		Claude: "Claude Code leaves second results out on resume",
	}, "the first result counts; the other is left out and stays in the original"},
	DisplacedResult: {Breaks, "results that do not follow their call", "the API answers 400: tool_use ids were found without tool_result blocks immediately after", nil,
		"the result is moved next to its call"},
	Unanswered: {Breaks, "calls without result", "the API answers 400: tool_use ids were found without tool_result blocks immediately after", map[Format]string{
		Claude: "Claude Code leaves the call out on resume, so the model does not know that it ran",
		Codex:  "Codex says aborted on resume", Pi: "pi says no result provided on resume", Daruma: "daruma adds one when it sends",
	}, "the call gets the result that the file still holds of it, else an error result that says that its outcome is unknown"},
	WrongFirst: {Breaks, "the conversation does not begin with the user", "the API answers 400: the first message must use the user role", nil,
		"where the beginning is in the file, the thread is linked to it again; else a first message is added that says that it is not available"},

	Unfinished: {Info, "a run without end", "on resume the agent goes on from here", nil, ""},
	UnknownBlock: {Breaks, "blocks that the API does not take", "the API answers 400: input tag does not match any of the expected tags, or tool use without its result", nil,
		"the block becomes a text that says what was there"},
	Unhealed: {Breaks, "what cannot be healed", "", nil, ""},
}
