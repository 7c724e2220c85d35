package failure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// row is one real payload with the labels that it was given by hand.
type row struct {
	ID         string
	Provider   string
	Transport  string
	Status     int
	Headers    map[string]string
	Body       string
	Kind       Kind
	Retry      Retry
	RetryAfter *float64 `json:"retry_after_s"`
	Facts      map[string]any
}

func corpus(t testing.TB) []row {
	t.Helper()
	f, err := os.Open("testdata/errors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("line %d: %v", len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func (r row) report() Report {
	header := map[string][]string{}
	for name, value := range r.Headers {
		header[name] = []string{value}
	}
	return Report{
		Provider: r.Provider, Status: r.Status, Header: header, Body: []byte(r.Body), InStream: r.Transport == "stream",
	}
}

// disputed are the labels that the classifier does not follow, each with the
// reason why.
var disputed = map[string]string{}

func TestCorpus(t *testing.T) {
	var kinds, retries, waits, facts, rows int
	for _, r := range corpus(t) {
		if disputed[r.ID] != "" {
			continue
		}
		rows++
		e := Classify(r.report())
		wrong := []string{}
		check := func(count *int, ok bool, format string, args ...any) {
			if ok {
				*count++
			} else {
				wrong = append(wrong, fmt.Sprintf(format, args...))
			}
		}
		check(&kinds, e.Kind == r.Kind, "kind %s, want %s", e.Kind, r.Kind)
		check(&retries, e.Retry == r.Retry, "retry %s, want %s", e.Retry, r.Retry)
		check(&waits, sameWait(e.Hint, r.RetryAfter), "wait %v, want %v", e.Hint, deref(r.RetryAfter))
		bad := wrongFacts(e, r.Facts)
		check(&facts, len(bad) == 0, "facts %s", strings.Join(bad, ", "))
		if len(wrong) > 0 {
			t.Errorf("%s %s %d (rule %s): %s\n\t%.300s", r.ID, r.Provider, r.Status, e.Rule, strings.Join(wrong, "; "), r.Body)
		}
	}
	t.Logf("of %d rows: kind %d, retry %d, wait %d, facts %d", rows, kinds, retries, waits, facts)
}

func deref(v *float64) any {
	if v == nil {
		return "none"
	}
	return *v
}

func sameWait(h Hint, want *float64) bool {
	if want == nil {
		return !h.Given
	}
	return h.Given && max(h.After.Seconds()-*want, *want-h.After.Seconds()) < 1e-3
}

// wrongFacts compares the facts that a row holds with what was read; figures
// beyond them are allowed.
func wrongFacts(e *Error, facts map[string]any) []string {
	data, err := json.Marshal(e.Numbers)
	if err != nil {
		return []string{err.Error()}
	}
	got := map[string]any{"reset_at": e.Hint.Reset, "regain_access": e.Hint.Reset, "message_index": float64(e.Numbers.Message - 1)}
	if err := json.Unmarshal(data, &got); err != nil {
		return []string{err.Error()}
	}
	var bad []string
	for name, want := range facts {
		have, ok := got[name]
		zero := fmt.Sprint(want) == "0" && !ok
		if !zero && fmt.Sprint(have) != fmt.Sprint(want) {
			bad = append(bad, fmt.Sprintf("%s is %v, want %v", name, have, want))
		}
	}
	slices.Sort(bad)
	return bad
}

// TestProvidersLeftOut holds the claim that the rules know ideas, not vendors:
// with a vendor's private rules taken away, its failures are still understood.
func TestProvidersLeftOut(t *testing.T) {
	right, total := map[string]int{}, map[string]int{}
	sumRight, sumTotal := 0, 0
	for _, r := range corpus(t) {
		general := slices.DeleteFunc(slices.Clone(rules), func(k rule) bool { return k.provider == r.Provider })
		total[r.Provider]++
		sumTotal++
		if classify(r.report(), general).Kind == r.Kind {
			right[r.Provider]++
			sumRight++
		}
	}
	var names []string
	for name := range total {
		names = append(names, name)
	}
	slices.Sort(names)
	var table strings.Builder
	for _, name := range names {
		fmt.Fprintf(&table, "\n%-20s %3d of %3d", name, right[name], total[name])
	}
	t.Logf("kinds without the provider's own rules: %d of %d%s", sumRight, sumTotal, table.String())
	if sumRight*100 < sumTotal*97 {
		t.Errorf("only %d of %d kinds are right without vendors' own rules, want 97 %%", sumRight, sumTotal)
	}
}

func TestVendorRulesAreFew(t *testing.T) {
	own := 0
	for _, r := range rules {
		if r.name == "" || r.reason == "" || r.kind == "" || r.retry == "" || r.when == nil {
			t.Errorf("rule %q is not whole", r.name)
		}
		if r.provider != "" {
			own++
		}
	}
	if own*10 > len(rules) {
		t.Errorf("%d of %d rules are for one vendor, want at most a tenth", own, len(rules))
	}
}

func BenchmarkClassify(b *testing.B) {
	rows := corpus(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Classify(rows[i%len(rows)].report())
	}
}

// TestWordings guards the breadth of the rules: the ways in which vendors,
// gateways and clients are known to say things, beyond the corpus.
func TestWordings(t *testing.T) {
	data, err := os.ReadFile("testdata/wordings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	wrong := 0
	for i, line := range lines {
		f := strings.SplitN(line, "\t", 4)
		if len(f) != 4 {
			t.Fatalf("line %d has %d columns", i+1, len(f))
		}
		status, inStream := strings.CutSuffix(f[1], "s")
		r := Report{Provider: f[2], Body: []byte(f[3]), InStream: inStream}
		if r.Status, err = strconv.Atoi(status); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if e := Classify(r); string(e.Kind) != f[0] {
			wrong++
			t.Errorf("line %d: %s by %s, want %s\n\t%.200s", i+1, e.Kind, e.Rule, f[0], f[3])
		}
	}
	t.Logf("%d of %d", len(lines)-wrong, len(lines))
}

// TestWrappedTwice holds that gateways may wrap what they like: each payload,
// put as a string into an envelope into an envelope of a stream, keeps its kind.
func TestWrappedTwice(t *testing.T) {
	wrap := func(body string) string {
		quoted, _ := json.Marshal(body)
		return `{"error":{"message":` + string(quoted) + `,"type":"upstream_error"}}`
	}
	for _, r := range corpus(t) {
		p := r.report()
		p.Body = []byte("data: " + wrap(wrap(r.Body)))
		if r.Transport == "network" {
			continue // a gateway's own broken connection is another failure
		}
		if e := Classify(p); e.Kind != r.Kind {
			t.Errorf("%s wrapped twice is %s by %s, want %s", r.ID, e.Kind, e.Rule, r.Kind)
		}
	}
}
