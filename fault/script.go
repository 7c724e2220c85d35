package fault

import (
	"path"
	"time"
)

// A Script is a parsed fault script. It never changes, so that several servers can play it.
type Script struct {
	Name string

	scale         float64
	seed          uint64
	charsPerToken float64
	prefill       bool
	models        []string
	limits        []modelLimits // the first whose glob fits a model applies, field by field
	judge         map[string]verdict
	layers        []*step
	steps         []*step
	rules         []*rule
}

// verdict is what the script does about a broken rule of the protocol.
type verdict int

const (
	refuse verdict = iota
	record
	ignore
)

// modelLimits are the limits of the models that fit glob; zero means unset.
type modelLimits struct {
	glob       string
	window     int
	overflow   string // too-long, sum, stop or cut
	output     int
	body       int
	media      int
	imageBytes int
	pages      int
}

// limitsFor merges the limits that fit the model: blocks for certain models win over general ones.
func (s *Script) limitsFor(model string) modelLimits {
	out := modelLimits{}
	for _, l := range s.limits {
		if !globs(l.glob, model) {
			continue
		}
		if out.window == 0 {
			out.window, out.overflow = l.window, l.overflow
		}
		for _, f := range [][2]*int{
			{&out.output, &l.output}, {&out.body, &l.body}, {&out.media, &l.media},
			{&out.imageBytes, &l.imageBytes}, {&out.pages, &l.pages},
		} {
			if *f[0] == 0 {
				*f[0] = *f[1]
			}
		}
	}
	return out
}

func (s *Script) knowsModel(model string) bool {
	for _, g := range s.models {
		if globs(g, model) {
			return true
		}
	}
	return len(s.models) == 0
}

// globs reports whether s fits pattern; the parser has made sure that the pattern is well-formed.
func globs(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	return err == nil && ok
}

// step is one planned fault. A layer is a step that is laid over whatever else happens.
type step struct {
	id    string
	layer bool
	times int // 0: always
	when  when
	until []test
	// byPath: the script says which path is meant. All other steps are about /v1/messages alone.
	byPath bool
	effects
}

// effects is all that steps and layers can do to an answer. Those of several are appended.
type effects struct {
	status *canned
	reply  *replySpec
	sse    *template // the whole stream as raw text

	headers []header
	waits   waits
	ends    []ending // faults before the headers
	edits   []edit   // changes to the list of events
	marks   []mark   // faults at a position of the stream

	chunk    int // bytes per write
	pieces   int // characters per delta
	lineEnd  string
	usage    map[string]int
	stop     *stopSpec
	truncate *truncation
	model    string // the model that the answer claims to come from
}

// canned is an answer that needs no model.
type canned struct {
	code        int
	contentType string
	body        template
	errType     string // set: body is the message of an API error of this type
}

type header struct {
	name   string
	value  template
	remove bool
}

type waits struct{ headers, first, events time.Duration }

// ending is what happens instead of any answer: how is stall, close or reset.
type ending struct {
	how  string
	wait time.Duration // stall: 0 means until the client leaves
}

type stopSpec struct {
	reason      string // empty: null
	sequence    string
	category    string
	explanation string
}

type truncation struct {
	n     int
	chars bool
}

// rule is one reply of the scripted model.
type rule struct {
	id    string
	times int
	when  when
	reply *replySpec
	// Compactions, titles and continuations are answered only by rules that ask for such: all other
	// rules are about ordinary requests.
	asksPurpose, asksContinuation bool
}

// when is a list of conditions; nth counts the requests that fulfil all others.
type when struct {
	tests []test
	nth   *span
}

type span struct{ lo, hi int }

func (s span) has(n int) bool { return n >= s.lo && n <= s.hi }
