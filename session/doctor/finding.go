package doctor

// Severity says how much a finding matters.
type Severity string

// The severities. What breaks makes the API refuse the conversation or the
// agent lose a part of it; what is risky can; an info asks for nothing.
const (
	Breaks Severity = "breaks"
	Risky  Severity = "risky"
	Info   Severity = "info"
)

// Rule names what is wrong.
type Rule string

// The rules, from the bytes up to the talk.
const (
	TornLine         Rule = "torn_line"
	FusedLine        Rule = "fused_line"
	NoLineEnd        Rule = "no_line_end"
	ByteOrderMark    Rule = "byte_order_mark"
	BadUTF8          Rule = "bad_utf8"
	HalfSurrogate    Rule = "half_surrogate"
	NUL              Rule = "nul"
	NULBytes         Rule = "nul_bytes"
	ControlCharacter Rule = "control_character"
	WrongChecksum    Rule = "wrong_checksum"
	LargeLine        Rule = "oversize_line"

	WrongShape       Rule = "wrong_shape"
	MissingHeader    Rule = "missing_header"
	DuplicateRecord  Rule = "duplicate_record_id"
	MissingParent    Rule = "missing_parent"
	Cycle            Rule = "cycle"
	OutOfOrder       Rule = "out_of_order"
	BrokenCompaction Rule = "broken_compaction"
	ForkBase         Rule = "fork_base"
	ForkChild        Rule = "fork_child"

	WrongRole       Rule = "wrong_role"
	EmptyMessage    Rule = "empty_message"
	EmptyText       Rule = "empty_text"
	NoObject        Rule = "input_no_object"
	BadCallID       Rule = "bad_call_id"
	BadToolName     Rule = "bad_tool_name"
	EmptyError      Rule = "empty_error_result"
	Unsigned        Rule = "unsigned_thinking"
	Altered         Rule = "altered_thinking"
	Foreign         Rule = "foreign_thinking"
	SplitThinking   Rule = "split_thinking"
	RefusedThinking Rule = "refused_thinking"
	Misplaced       Rule = "misplaced_block"
	BrokenMedia     Rule = "broken_media"
	WrongMediaType  Rule = "wrong_media_type"
	LargeMedia      Rule = "oversize_media"
	ManyMedia       Rule = "too_many_media"
	LargeText       Rule = "oversize_text"
	LargeSession    Rule = "oversize_session"
	CacheMark       Rule = "too_many_cache_marks"
	ExtraMember     Rule = "extra_member"
	ErrorAsAnswer   Rule = "error_as_answer"

	DuplicateCall   Rule = "duplicate_call_id"
	Orphan          Rule = "result_without_call"
	SecondResult    Rule = "second_result"
	DisplacedResult Rule = "displaced_result"
	Unanswered      Rule = "call_without_result"
	WrongFirst      Rule = "wrong_first_message"

	Unfinished   Rule = "unfinished_run"
	UnknownBlock Rule = "unknown_block"
	Unhealed     Rule = "cannot_be_healed"
)

// Finding is one thing that is wrong, or worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	Line     int      `json:"line,omitzero"`       // from 1; 0 for the whole file or for what a repair added
	Message  string   `json:"message_id,omitzero"` // as the file names it
	What     string   `json:"what"`                // what is wrong, in plain words
	Effect   string   `json:"effect,omitzero"`     // what the API or the agent makes of it
	Repair   string   `json:"repair,omitzero"`     // what healing does; empty: nothing, by healing

	mend func(*plan)
}

// Healable reports whether [File.Heal] removes what was found.
func (f Finding) Healable() bool { return f.mend != nil }

// about is what is true of a rule wherever it is broken.
type about struct {
	severity Severity
	title    string
	effect   string            // of the API, or of every agent
	agents   map[Format]string // what the owner of the file does
	repair   string
}

// finding fills in what is true of every finding of its rule.
func (d *doc) finding(format Format, rule Rule, line int, what string, mend func(*plan)) Finding {
	a := rules[rule]
	f := Finding{Severity: a.severity, Rule: rule, What: what, Effect: a.effect, mend: mend}
	if line >= 0 && line < len(d.lines) {
		f.Line = d.lines[line].no
	}
	if own := a.agents[format]; own != "" {
		f.Effect = join(f.Effect, own)
	}
	if mend != nil {
		f.Repair = a.repair
	}
	return f
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
