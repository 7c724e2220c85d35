package failure

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// figure reads numbers with a stated meaning out of a text. The groups of the
// pattern are named after the members of [Numbers]; the first figure that
// gives a member wins, so the order is from the precise to the general.
type figure struct {
	pattern string
	reason  string
}

// figures is the table of phrases that say what a number is a number of. Every
// N stands for an integer.
var figures = []figure{
	// Sums: input plus output against a window.
	{`\b(?P<input>N) \+ (?P<max>N) > (?P<limit>N)`, "input and output room against the window"},
	{`\b(?P<max_messages>N) in the (?:messages|prompt|input)`, "the prompt's part of a split sum"},
	{`\b(?P<functions>N) in the (?:functions|tools)`, "tool definitions count as input too"},
	{`\b(?P<max_messages>N) of text input, (?P<functions>N) of tool input`, "the same split, as routers print it"},
	{`\b(?P<max>N) in the (?:completion|output)|(?P<max>N) (?:tokens )?(?:for|of) the completion`, "the output's part of a split sum"},
	{`\b(?P<input>N) (?:tokens )?(?:from|of|in) (?:the|your) (?:input|prompt)`, "the same split in other words"},
	{`\b(?P<input>N) inputs? tokens and (?P<max>N) max_new_tokens`, "a split with the parameter's name"},
	{`at least (?P<least>N) input tokens`, "a lower bound of the input, derived from the limit: never to be subtracted from it"},
	{`requested (?:up to )?(?P<max>N) (?:output )?tokens(?: and|, but can)`, "the output room that was asked for"},
	{`max(?:imum)?[ _](?:completion[ _]|output[ _]|new[ _])?tokens\W{1,4}(?P<max>N)\)? (?:>|exceeds|is (?:larger|greater|more|higher) than|is too large)`, "an output room above a cap"},
	{`is too large: (?P<max>N)`, "the same, value last"},
	{`(?:has|have|contains|is|of) (?P<input>N) input tokens`, "the input by its name"},
	{`(?:at most|up to) (?P<limit>N) (?:completion|output) tokens`, "the cap of the output by its name"},

	{`maxoutputtokens value of (?P<max>N)`, "an output room above a range"},
	{`range is from \d+ \(inclusive\) to (?P<above>N) \(exclusive\)`, "the first value that is too large"},

	// Media and bytes: units of their own, never tokens.
	{`(?P<bytes>N) bytes > (?P<limit_bytes>N) bytes`, "a file against its limit"},
	{`(?:body|request|payload|content).{0,80}length less than or equal to (?P<limit_bytes>N)`, "a constraint on the length of the body"},
	{`(?:limit|max\w*)[^.\d]{0,30}(?P<limit_bytes>N) ?bytes`, "a limit in bytes"},
	{`(?P<bytes>N) ?bytes`, "a size in bytes"},
	{`= (?P<pixels>N) pixels\. maximum allowed: (?P<limit_pixels>N) pixels`, "an area in pixels"},
	{`(?:max|limit|exceed)[^.]{0,80}?(?P<limit_pixels>N) ?(?:pixels|px\b)`, "a side in pixels"},
	{`(?:max|limit|up to|exceed)[^.\d]{0,40}(?P<limit_pages>N) (?:pdf )?pages`, "pages of a document"},
	{`too many (?:images|documents|files|media)[^.]{0,60}?(?:> ?|max\w* (?:of )?|limit (?:of |is )?)(?P<limit_items>N)`, "images of one request"},
	{`(?:images|media|documents) > (?P<limit_items>N)`, "the same, as a comparison"},
	{`(?:max\w*|limit|up to|at most)(?: of| is)? (?P<limit_items>N) (?:images|documents|files)`, "the same, limit first"},
	{`maximum length (?:of )?(?P<limit_chars>N), but got a string with length (?P<chars>N)`, "characters of one field"},
	{`maxlength: (?P<limit_chars>N), actual: (?P<chars>N)`, "characters of the input"},
	{`(?:limit|max\w*)[^.\d]{0,30}(?P<limit_chars>N) ?(?:characters|chars)`, "a limit in characters"},

	// Rates and allowances.
	{`limit:? (?P<limit>N),? used:? (?P<used>N),? requested:? ~?(?P<requested>N)`, "a bucket, its level and this request"},
	{`limit:? (?P<limit>N)(?: ?/ ?\w+)?[.,]? requested:? ~?(?P<requested>N)`, "a bucket that is smaller than the request"},
	{`current: (?P<used>N), limit: (?P<limit>N)`, "an allowance and its use"},
	{`current cost: (?P<spent>[\d.]+), max(?:imum)? budget: (?P<limit>N)`, "a budget in money"},
	{`spend=(?P<spent>[\d.]+), budget=(?P<limit>N)`, "the same, as members"},
	{`limit:? (?P<limit>N) ?/ ?\w+|limited to (?P<limit>N)`, "a rate as a fraction, or in plain words"},
	{`limit(?: of)?:? \(?(?P<limit>N) (?:\w+ )?(?:\w+ )?per\b`, "an allowance by its window"},
	{`tokens (?P<requested>N) exceed the (?P<limit>N) allowed`, "the same in a sentence"},
	{`\bused:? (?P<used>N)`, "what is used of it"},
	{`max (?:rpm|tpm|rpd|tpd|qps|concurrency): (?P<limit>N)`, "a rate by its short name"},
	{`\b(?P<limit>N) (?:\w+ )?(?:tokens|requests) per (?:minute|min|second|sec|hour|day)`, "a rate in words"},
	{`can only afford (?P<affordable>N)`, "what the balance buys: money, not a window"},

	// Windows of context, and caps of output.
	{`context (?:length|window|size) (?:is |of |\(|limit )?(?:only )?(?P<limit>N)`, "the window"},
	{`max(?:imum)? (?:context|prompt|input|sequence)[ _]?(?:length|size|tokens)?:? (?:is |of )?(?P<limit>N)`, "the window, named as a maximum"},
	{`max(?:imum)? (?:number of )?tokens allowed \(?(?P<limit>N)`, "the window, named as what is allowed"},
	{`(?P<limit>N) maximum (?:context|prompt|input) length`, "the window, number first"},
	{`(?:configured|context|token|input|prompt) limit (?:of|is|:) (?P<limit>N)`, "the window, named as a limit"},
	{`must be <= (?P<limit>N)\. given`, "the window, as a comparison"},
	{`(?:messages|prompt|input|request) (?:resulted in|contains|has|is|of) (?P<input>N) tokens`, "the prompt as counted"},
	{`range of (?:input length|max_\w*tokens) (?:should be|is) \[\d+, ?(?P<limit>N)\]`, "a closed range"},
	{`max(?:imum)?[ _]\w*[ _]?tokens.{0,60}(?:less than or equal to|at most|<=|no more than|range is \[\d+,|between \d+ and|(?:model )?limit of|maximum (?:value )?(?:of|is)) ?(?P<limit>N)`, "the cap of the output"},
	{`(?:max size|token limit): (?P<limit>N)`, "a limit by its label"},
	{`\(requested: (?P<requested>N)\)|received (?P<requested>N)|requested tokens \((?P<requested>N)\)|total of (?P<requested>N) tokens`, "a sum without a split"},
	{`cannot exceed (?P<limit>N)`, "a limit in plain words"},
	{`> (?P<limit>N)(?: maximum|, which is the max)`, "the right side of a comparison"},
}

// compiledFigures is figures, compiled at the first use.
var compiledFigures = sync.OnceValue(func() []compiledFigure { return compileFigures(figures) })

var groupOpen = pattern(`\(\?P<(\w+)>`)

type compiledFigure struct {
	re    *regexp.Regexp
	names []string
}

func compileFigures(table []figure) []compiledFigure {
	out := make([]compiledFigure, len(table))
	for i, f := range table {
		// Go allows a group's name once: alternatives number theirs.
		n := 0
		expr := groupOpen().ReplaceAllStringFunc(f.pattern, func(g string) string {
			n++
			return strings.TrimSuffix(g, ">") + "_" + strconv.Itoa(n) + ">"
		})
		re := regexp.MustCompile(strings.ReplaceAll(expr, ">N)", `>\d[\d,_]*)`))
		names := re.SubexpNames()
		for j, name := range names {
			if k := strings.LastIndexByte(name, '_'); k >= 0 {
				names[j] = name[:k]
			}
		}
		out[i] = compiledFigure{re: re, names: names}
	}
	return out
}

// findNumbers reads all figures of the evidence. Members of the payload are
// more exact than sentences, so they come first.
func (e *evidence) findNumbers() Numbers {
	var n Numbers
	taken := map[string]bool{}
	set := func(name string, v float64) {
		if taken[name] || v < 0 || v > math.MaxInt32*1000 {
			return
		}
		if n.set(name, v) {
			taken[name] = true
		}
	}
	for member, name := range map[string]string{"n_prompt_tokens": "input", "n_ctx": "limit"} {
		if v, ok := e.fields[member]; ok {
			set(name, v)
		}
	}
	text := e.text
	for _, f := range compiledFigures() {
		m := f.re.FindStringSubmatch(text)
		for i := 1; i < len(m); i++ {
			if m[i] == "" {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimRight(strings.NewReplacer(",", "", "_", "").Replace(m[i]), "."), 64)
			if err == nil {
				set(f.names[i], v)
			}
		}
	}
	capOnly := outputCap().MatchString(text) && !inputBlamed().MatchString(text)
	if n.MessagesTokens > 0 && n.InputTokens == 0 {
		n.InputTokens = n.MessagesTokens + n.FunctionsTokens
		if n.FunctionsTokens == 0 {
			n.MessagesTokens = 0 // not a split of the input: the input itself
		}
	}
	if n.Bytes == n.LimitBytes {
		n.Bytes = 0 // one number, stated as the limit
	}
	whole := n.InputTokens > 0 && n.Limit > 0 || n.Requested > 0 || n.InputAtLeast > 0
	if !capOnly && !whole && n.Chars == 0 && overflow().MatchString(text) && !rate().MatchString(text) {
		if said := words(e.message, false); overflow().MatchString(said) {
			text = said
		}
		n.compare(text)
	}
	if limit, err := strconv.Atoi(e.header["x-ratelimit-limit"]); err == nil && e.header["x-ratelimit-remaining"] == "0" && n.Limit == 0 {
		n.Limit = limit // the allowance that is empty
	}
	e.place(&n, e.text)
	e.window(&n, e.text)
	return n
}

// set files v under a group's name and tells whether there is such a member.
func (n *Numbers) set(name string, v float64) bool {
	members := map[string]*int{
		"input": &n.InputTokens, "max": &n.MaxTokens, "limit": &n.Limit, "requested": &n.Requested,
		"max_messages": &n.MessagesTokens, "functions": &n.FunctionsTokens, "least": &n.InputAtLeast,
		"bytes": &n.Bytes, "limit_bytes": &n.LimitBytes, "pixels": &n.Pixels, "limit_pixels": &n.LimitPixels,
		"limit_pages": &n.LimitPages, "limit_items": &n.LimitItems, "chars": &n.Chars, "limit_chars": &n.LimitChars,
		"used": &n.Used, "affordable": &n.Affordable,
	}
	switch name {
	case "spent":
		n.Spent = v
		return true
	case "above":
		n.Limit = int(v) - 1
		return true
	}
	member := members[name]
	if member == nil {
		return false
	}
	*member = int(v)
	return true
}

var integer = pattern(`[\w.:/#-]*\d[\w.,:/-]*`)

// compare reads an overflow whose wording is in no table. Something is longer
// than something: of two figures the larger is the input, the smaller the
// limit. With any other count of figures nothing is certain, and nothing said.
func (n *Numbers) compare(text string) {
	at := overflow().FindStringIndex(text)
	window := text[max(0, at[0]-120):min(len(text), at[1]+160)]
	var found []int
	for _, word := range integer().FindAllString(window, 40) {
		word = strings.ReplaceAll(strings.Trim(word, ".,:"), ",", "")
		v, err := strconv.Atoi(word)
		if err == nil && v >= 600 && !slices.Contains(found, v) {
			found = append(found, v)
		}
	}
	switch {
	case n.InputTokens == 0 && len(found) == 2:
		n.InputTokens, n.Limit = max(found[0], found[1]), min(found[0], found[1])
	case n.InputTokens != 0:
		for _, v := range found {
			if v < n.InputTokens && n.Limit == 0 {
				n.Limit = v
			}
		}
	case len(found) == 1 && n.Limit != 0 && found[0] > n.Limit:
		n.InputTokens = found[0]
	}
}

var (
	position  = pattern(`\b(?:messages?|contents?|input)(?:\.|\[)(\d{1,5})\]?(?:\.(?:content|parts)(?:\.|\[)(\d{1,5}))?`)
	toolAt    = pattern(`\btools(?:\.|\[)(\d{1,4})\]?\.`)
	codeNoted = pattern(`\((\d{4})\)\s*(?:$|["'])|\[(\d{4})\]`)
	noneAtAll = pattern(`\blimit: 0\b|"quota_limit_value": ?"0"|quotavalue['"]?: ?['"]0['"]|\(0/0 used\)`)
)

// place notes which message, block or tool the failure points at, the vendor's own
// code number, and whether the plan holds nothing at all.
func (e *evidence) place(n *Numbers, text string) {
	if m := position().FindStringSubmatch(text); m != nil {
		i, _ := strconv.Atoi(m[1])
		n.Message = i + 1
		if m[2] != "" {
			j, _ := strconv.Atoi(m[2])
			n.Block = j + 1
		}
	}
	if m := toolAt().FindStringSubmatch(text); m != nil {
		i, _ := strconv.Atoi(m[1])
		n.Tool = i + 1
	}
	if v := e.fields["code"]; v >= 1000 && v < 1e6 {
		n.Code = int(v)
	} else if m := codeNoted().FindStringSubmatch(text); m != nil {
		n.Code, _ = strconv.Atoi(m[1] + m[2])
	} else if v, err := strconv.Atoi(e.label); err == nil && v >= 1000 {
		n.Code = v
	}
	n.NoAllowance = noneAtAll().MatchString(text)
}

var windows = []struct {
	name string
	re   func() *regexp.Regexp
}{
	{"day", pattern(`per[ _-]?day|/ ?day\b|\bdaily\b|\b[tr]pd\b|\ba day\b|requestsperday|今日|每日|每天|当日`)},
	{"week", pattern(`per[ _-]?week|\bweekly\b|7[ -]day|seven[_ -]day|每周|本周`)},
	{"month", pattern(`per[ _-]?month|/ ?month\b|\bmonthly\b|billing (?:cycle|period)|每月|本月`)},
	{"5h", pattern(`\b(?:5|five)[ _-]?h(?:ou)?rs?\b`)},
	{"hour", pattern(`per (?:\d+ )?hours?|/ ?hour\b|\bhourly\b|每小时`)},
}

// window names the longest window that an allowance is counted over; "" is a
// minute or less, or none named.
func (e *evidence) window(n *Numbers, text string) {
	for _, w := range windows {
		if w.re().MatchString(text) {
			n.QuotaWindow = w.name
			return
		}
	}
}
