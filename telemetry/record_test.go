package telemetry_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// recorder is a tracer that keeps what it is told. It stands in for the SDK,
// which would be ten more modules for tests alone.
type recorder struct {
	embedded.Tracer
	mu    sync.Mutex
	began time.Time
	spans []*span
}

// span is a recorded span, with everything that was ever said about it.
type span struct {
	noop.Span // what no observer calls

	rec    *recorder
	number int
	parent trace.SpanContext
	name   string
	kind   trace.SpanKind
	from   time.Time
	to     time.Time
	attrs  []attribute.KeyValue
	links  []trace.Link
	events []trace.EventConfig
	names  []string // of the events
	status codes.Code
	text   string
	ends   int
	late   []string // what came after the end
}

func newRecorder() *recorder { return &recorder{began: time.Now()} }

func (r *recorder) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := trace.NewSpanStartConfig(options...)
	s := &span{
		rec: r, number: len(r.spans) + 1, parent: trace.SpanContextFromContext(ctx), name: name,
		kind: c.SpanKind(), from: c.Timestamp(), attrs: c.Attributes(), links: c.Links(),
	}
	r.spans = append(r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) SpanContext() trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: trace.TraceID{1}, TraceFlags: trace.FlagsSampled}
	if s.parent.IsValid() {
		c.TraceID = s.parent.TraceID()
	}
	binary.BigEndian.PutUint64(c.SpanID[:], uint64(s.number))
	return trace.NewSpanContext(c)
}

// open notes what comes too late.
func (s *span) open(what string) (unlock func()) {
	s.rec.mu.Lock()
	if s.ends > 0 {
		s.late = append(s.late, what)
	}
	return s.rec.mu.Unlock
}

func (s *span) IsRecording() bool { return s.ends == 0 }

func (s *span) SetAttributes(kv ...attribute.KeyValue) {
	defer s.open("attributes")()
	for _, a := range kv {
		s.attrs = slices.DeleteFunc(s.attrs, func(b attribute.KeyValue) bool { return a.Key == b.Key })
		s.attrs = append(s.attrs, a)
	}
}

func (s *span) SetStatus(code codes.Code, text string) {
	defer s.open("status")()
	s.status, s.text = code, text
}

func (s *span) AddEvent(name string, options ...trace.EventOption) {
	defer s.open("event " + name)()
	s.names = append(s.names, name)
	s.events = append(s.events, trace.NewEventConfig(options...))
}

func (s *span) End(options ...trace.SpanEndOption) {
	defer s.open("end")()
	s.ends++
	if c := trace.NewSpanEndConfig(options...); s.ends == 1 {
		s.to = c.Timestamp()
	}
}

// attr is the value of an attribute as text; empty if there is none.
func (s *span) attr(key string) string {
	for _, a := range s.attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// texts is every word that left, with the place where it stands.
func (r *recorder) texts() map[string]string {
	out := map[string]string{}
	add := func(where string, kv []attribute.KeyValue) {
		for _, a := range kv {
			out[where+" "+string(a.Key)] = a.Value.String()
		}
	}
	for _, s := range r.spans {
		where := fmt.Sprintf("#%d", s.number)
		out[where+" name"], out[where+" status"] = s.name, s.text
		add(where, s.attrs)
		for i, e := range s.events {
			add(fmt.Sprintf("%s event %d %s", where, i, s.names[i]), e.Attributes())
		}
		for _, l := range s.links {
			add(where+" link", l.Attributes)
		}
	}
	return out
}

// holding lists the places in which text stands.
func (r *recorder) holding(text string) []string {
	all := r.texts()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(k string) bool { return !strings.Contains(all[k], text) })
}

// facts says everything in single lines: those of a span begin with its number,
// those of an event with a star.
func (r *recorder) facts() []string {
	var out []string
	add := func(where string, kv []attribute.KeyValue) {
		for _, a := range kv {
			out = append(out, where+" "+string(a.Key)+"="+a.Value.String())
		}
	}
	for _, s := range r.spans {
		out = append(out, fmt.Sprintf("%d (%s)", s.number, s.kind))
		add(fmt.Sprint(s.number), s.attrs)
		for _, l := range s.links {
			add(fmt.Sprintf("%d ->", s.number), l.Attributes)
		}
		for i, e := range s.events {
			out = append(out, "* "+s.names[i])
			add("* "+s.names[i], e.Attributes())
		}
	}
	return out
}

// tree draws the spans.
func (r *recorder) tree() string {
	var b strings.Builder
	var draw func(parent trace.SpanID, indent string)
	draw = func(parent trace.SpanID, indent string) {
		for _, s := range r.spans {
			if s.parent.SpanID() == parent {
				s.draw(&b, indent)
				draw(s.SpanContext().SpanID(), indent+"    ")
			}
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}

func (s *span) draw(b *strings.Builder, indent string) {
	at := func(t time.Time) string { return t.Sub(s.rec.began).Round(time.Millisecond).String() }
	fmt.Fprintf(b, "%s#%d %s (%s) %s … %s %s\n", indent, s.number, s.name, s.kind, at(s.from), at(s.to),
		strings.TrimSpace(s.status.String()+" "+s.text))
	fill(b, indent+"  ", s.attrs)
	for _, l := range s.links {
		id := l.SpanContext.SpanID()
		fmt.Fprintf(b, "%s  -> #%d\n", indent, binary.BigEndian.Uint64(id[:]))
		fill(b, indent+"     ", l.Attributes)
	}
	for i, e := range s.events {
		fmt.Fprintf(b, "%s  * %s %s\n", indent, at(e.Timestamp()), s.names[i])
		fill(b, indent+"    ", e.Attributes())
	}
}

// fill writes attributes, as many on a line as are readable.
func fill(b *strings.Builder, indent string, kv []attribute.KeyValue) {
	line := ""
	for _, a := range kv {
		word := string(a.Key) + "=" + a.Value.String()
		if line != "" && len(line)+len(word) > 110 {
			fmt.Fprintf(b, "%s%s\n", indent, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// lawful holds what is true of every trace, however its runs went.
func lawful(t *testing.T, r *recorder) {
	t.Helper()
	byID := map[trace.SpanID]*span{}
	for _, s := range r.spans {
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range r.spans {
		if s.ends != 1 || len(s.late) > 0 {
			t.Errorf("#%d %s was ended %d times, and then came %v", s.number, s.name, s.ends, s.late)
		}
		if s.to.Before(s.from) {
			t.Errorf("#%d %s ends before it begins", s.number, s.name)
		}
		if failed := s.status == codes.Error; failed != (s.attr("error.type") != "") {
			t.Errorf("#%d %s: status %s, error type %q", s.number, s.name, s.status, s.attr("error.type"))
		}
		if s.attr("gen_ai.operation.name") == "" || s.attr("gen_ai.provider.name") == "" || s.attr("gen_ai.conversation.id") == "" {
			t.Errorf("#%d %s lacks what every span has", s.number, s.name)
		}
		parent := byID[s.parent.SpanID()]
		if parent == nil {
			if !strings.HasPrefix(s.name, "invoke_agent ") {
				t.Errorf("#%d %s has no parent", s.number, s.name)
			}
			continue
		}
		if !strings.HasPrefix(parent.name, "invoke_agent ") || s.from.Before(parent.from) || s.to.After(parent.to) {
			t.Errorf("#%d %s does not lie within #%d %s", s.number, s.name, parent.number, parent.name)
		}
		if s.name == "chat "+s.attr("gen_ai.request.model") && s.attr("daruma.outcome") == "" && s.attr("error.type") != "unfinished" {
			t.Errorf("#%d %s has no outcome", s.number, s.name)
		}
		for _, l := range s.links {
			if to := byID[l.SpanContext.SpanID()]; to == nil || to.ends == 0 || !to.parent.Equal(s.parent) || to.attr("daruma.outcome") == "committed" {
				t.Errorf("#%d %s is linked to what it cannot stand in for", s.number, s.name)
			}
		}
	}
}
