package doctor

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// node is a record of a tree: its id, and the id of the record that it hangs on.
type node struct {
	line   int
	id     string
	parent string // empty: a root
	time   string // as the record tells it
	begins bool   // it can be the beginning of a thread
	alone  bool   // it is always the beginning of one
}

// tree is how Claude Code and pi keep a talk: each record names the one before
// it, and the talk is the way from the last record to the root.
type tree struct {
	doc    *doc
	format Format
	nodes  []node         // in the order of the file
	byID   map[string]int // the last node of each id holds, as for the agents
	byLine map[int]int
	idPath string // where the id stands in a record
	path   string // where the parent stands
}

// add appends a node. A link to nothing is null; one to a record without a name
// leads nowhere.
func (t *tree) add(at node, parent *string) {
	if t.byID == nil {
		t.byID, t.byLine = map[string]int{}, map[int]int{}
	}
	if parent != nil {
		at.parent = or(*parent, `""`)
	}
	t.byID[at.id] = len(t.nodes)
	t.byLine[at.line] = len(t.nodes)
	t.nodes = append(t.nodes, at)
}

// chain returns the nodes from the root to leaf. A circle ends it.
func (t *tree) chain(leaf int) []int {
	var out []int
	seen := map[int]bool{}
	for at, ok := leaf, leaf >= 0; ok && !seen[at]; {
		seen[at] = true
		out = append(out, at)
		if t.nodes[at].parent == "" {
			break
		}
		at, ok = t.byID[t.nodes[at].parent]
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// reaches reports whether the way up from a node passes the other one.
func (t *tree) reaches(from, to int) bool {
	seen := map[int]bool{}
	for at, ok := from, true; ok && !seen[at]; at, ok = t.byID[t.nodes[at].parent] {
		if at == to {
			return true
		}
		seen[at] = true
	}
	return false
}

// before returns the nearest node before n in the file that can carry it.
func (t *tree) before(n int) (id string) {
	for k := n - 1; k >= 0; k-- {
		if t.byID[t.nodes[k].id] == k && !t.reaches(k, n) {
			return t.nodes[k].id
		}
	}
	return ""
}

// relink lets n hang on the node before it.
func (t *tree) relink(n int) func(*plan) {
	return func(p *plan) { p.set(t.nodes[n].line, t.path, idOrNull(t.before(n))) }
}

// reconnect lets the root of a thread hang on what stands before it in the
// file, and reports whether there is anything. It is for a thread whose root
// cannot be a beginning.
func (t *tree) reconnect(p *plan, way []int) bool {
	if len(way) == 0 || t.before(way[0]) == "" {
		return false
	}
	t.relink(way[0])(p)
	return true
}

// forward finds links to records that were written later, as their place and
// their time tell.
func (t *tree) forward() []Finding {
	var out []Finding
	for n, at := range t.nodes {
		m, ok := t.byID[at.parent]
		if !ok || m < n || at.time == "" || at.time >= t.nodes[m].time || t.before(n) == "" {
			continue
		}
		what := fmt.Sprintf("record %s hangs on %s, which was written after it", at.id, at.parent)
		f := t.doc.finding(t.format, MissingParent, at.line, what, t.relink(n))
		f.Effect = "what was said before it is lost, or what was said after it"
		out = append(out, f)
	}
	return out
}

// strayed finds a last record that others hang on, as happens when lines were
// put in another order: the thread would end with it, and lose what follows.
func (t *tree) strayed() []Finding {
	last := len(t.nodes) - 1
	if last < 0 {
		return nil
	}
	child := -1
	for n, at := range t.nodes {
		if at.parent == t.nodes[last].id {
			child = n
			break
		}
	}
	if child < 0 || child == last {
		return t.outdated()
	}
	what := fmt.Sprintf("record %s stands behind line %d, which hangs on it", t.nodes[last].id, t.doc.lines[t.nodes[child].line].no)
	return []Finding{t.doc.finding(t.format, OutOfOrder, t.nodes[last].line, what, t.inOrder)}
}

// outdated finds a last record that is older than the end of a longer thread,
// as happens when lines were put in another order: the agent would go on with
// the older one.
func (t *tree) outdated() []Finding {
	deep := t.depths()
	last := len(t.nodes) - 1
	newest := last
	for n, at := range t.nodes {
		if at.time > t.nodes[newest].time && deep[n] > deep[last] {
			newest = n
		}
	}
	if newest == last || t.nodes[last].time == "" {
		return nil
	}
	what := fmt.Sprintf("record %s is the last one, and older than the end of the thread in line %d", t.nodes[last].id, t.doc.lines[t.nodes[newest].line].no)
	return []Finding{t.doc.finding(t.format, OutOfOrder, t.nodes[last].line, what, t.inOrder)}
}

// depths tells of each node how many stand above it. A circle ends the count.
func (t *tree) depths() []int {
	deep := make([]int, len(t.nodes))
	for n := range t.nodes {
		var up []int
		at, ok := n, true
		for ok && deep[at] == 0 && len(up) <= len(t.nodes) {
			up = append(up, at)
			at, ok = t.byID[t.nodes[at].parent]
		}
		base := 0
		if ok {
			base = deep[at]
		}
		for k, at := range slices.Backward(up) {
			deep[at] = base + len(up) - k
		}
	}
	return deep
}

// inOrder puts each record behind the one that it hangs on, and leaves the
// order as it is otherwise.
func (t *tree) inOrder(p *plan) {
	var order []int
	placed := map[int]bool{}
	for n := range t.nodes {
		var up []int // what has to come before n
		for at, ok := n, true; ok && !placed[at]; at, ok = t.byID[t.nodes[at].parent] {
			placed[at] = true
			up = append(up, at)
		}
		for _, at := range slices.Backward(up) {
			order = append(order, at)
		}
	}
	// The newest record ends the file, since that is where the agent goes on;
	// of several, and where no times are told, the one with the longest thread.
	carries := map[string]bool{}
	for _, at := range t.nodes {
		carries[at.parent] = true
	}
	deep, end := t.depths(), -1
	for k, n := range order {
		if carries[t.nodes[n].id] {
			continue
		}
		if end < 0 {
			end = k
		}
		if was := order[end]; cmp.Or(cmp.Compare(t.nodes[n].time, t.nodes[was].time), cmp.Compare(deep[n], deep[was])) >= 0 {
			end = k
		}
	}
	if end < 0 {
		return // a circle, which is another fault
	}
	order = append(slices.Delete(slices.Clone(order), end, end+1), order[end])
	for k, n := range order {
		order[k] = t.nodes[n].line
	}
	p.arrange(order)
}

func idOrNull(id string) []byte {
	if id == "" {
		return []byte("null")
	}
	return quote(id)
}

// faults finds ids that occur twice, links that lead nowhere and circles.
func (t *tree) faults(leaf int) []Finding {
	if out := t.duplicates(); len(out) > 0 {
		return out // links can be judged once ids are unique
	}
	if n := t.circle(); n >= 0 {
		what := fmt.Sprintf("record %s hangs on %s, which leads back to it", t.nodes[n].id, t.nodes[n].parent)
		return []Finding{t.doc.finding(t.format, Cycle, t.nodes[n].line, what, t.relink(n))}
	}
	if out := t.forward(); len(out) > 0 {
		return out
	}
	if out := t.strayed(); len(out) > 0 {
		return out
	}
	var out []Finding
	onWay := map[int]bool{}
	for _, n := range t.chain(leaf) {
		onWay[n] = true
	}
	for n, at := range t.nodes {
		if at.parent == "" && onWay[n] && !at.begins && t.before(n) != "" {
			what := fmt.Sprintf("record %s hangs on nothing, and cannot be the beginning of a conversation", at.id)
			out = append(out, t.doc.finding(t.format, MissingParent, at.line, what, t.relink(n)))
		}
		if _, ok := t.byID[at.parent]; ok || at.parent == "" {
			continue
		}
		f := t.doc.finding(t.format, MissingParent, at.line, fmt.Sprintf("record %s hangs on %s, which is not in the file", at.id, at.parent), nil)
		switch {
		case !onWay[n]:
			f.Severity, f.Effect = Info, "it belongs to a branch that is not sent"
		case n == 0:
			f.Severity, f.Effect = Risky, "nothing stands before it, so nothing is lost"
			fallthrough
		default:
			f.mend, f.Repair = t.relink(n), rules[MissingParent].repair
		}
		out = append(out, f)
	}
	return out
}

// circle returns the first node of a circle, or -1.
func (t *tree) circle() int {
	state := make([]int, len(t.nodes)) // 0 new, else the number of the walk
	for start := range t.nodes {
		at, ok := start, true
		for ok && state[at] == 0 {
			state[at] = start + 1
			at, ok = t.byID[t.nodes[at].parent]
		}
		if !ok || state[at] != start+1 {
			continue
		}
		first := at // the one that stands first in the file points forward
		for n := t.byID[t.nodes[at].parent]; n != at; n = t.byID[t.nodes[n].parent] {
			first = min(first, n)
		}
		return first
	}
	return -1
}

func (t *tree) duplicates() []Finding {
	var out []Finding
	first := map[string]int{}
	for n, at := range t.nodes {
		m, again := first[at.id]
		if !again {
			first[at.id] = n
			continue
		}
		same := bytes.Equal(t.doc.lines[at.line].text(), t.doc.lines[t.nodes[m].line].text())
		what := fmt.Sprintf("record %s stands in line %d already", at.id, t.doc.lines[t.nodes[m].line].no)
		mend := func(p *plan) { t.separate(p, m, n) }
		if same {
			what += ", word for word"
			mend = func(p *plan) { p.drop(at.line) }
		}
		out = append(out, t.doc.finding(t.format, DuplicateRecord, at.line, what, mend))
		if !same {
			return out // one at a time: the links of the next one depend on it
		}
	}
	return out
}

// separate gives node n, which has the id of m, an id of its own and puts it
// into the thread: what follows it in the file hangs on it.
func (t *tree) separate(p *plan, m, n int) {
	old := t.nodes[n].id
	id := t.newID(old, t.nodes[n].line)
	p.set(t.nodes[n].line, t.idPath, quote(id))
	if !t.nodes[n].alone && (t.nodes[n].parent == t.nodes[m].parent || t.nodes[n].parent == old) {
		p.set(t.nodes[n].line, t.path, quote(old))
	}
	for k := n + 1; k < len(t.nodes); k++ {
		if t.nodes[k].parent == old {
			p.set(t.nodes[k].line, t.path, quote(id))
		}
	}
}

// newID makes an id in the style of the file. It depends on the seed alone, so
// that healing twice gives the same bytes.
func (t *tree) newID(seed ...any) string {
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Append(nil, append(seed, n)...))
		id := hex.EncodeToString(sum[:4])
		if t.format == Claude {
			id = uuid(sum)
		}
		if _, taken := t.byID[id]; !taken {
			return id
		}
	}
}

func uuid(sum [32]byte) string {
	sum[6], sum[8] = sum[6]&0x0F|0x40, sum[8]&0x3F|0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// settle lets the records that hung on dropped ones hang on what those hung on.
func (t *tree) settle(p *plan) {
	for _, at := range t.nodes {
		if p.dropped(at.line) {
			continue
		}
		if _, own := p.planned(at.line, t.path); own {
			continue
		}
		if id, changed := t.standing(p, at.parent); changed {
			p.set(at.line, t.path, idOrNull(id))
		}
	}
}

// standing returns the record that id becomes once dropped lines are gone.
func (t *tree) standing(p *plan, id string) (string, bool) {
	changed := false
	for range t.nodes {
		n, ok := t.byID[id]
		if !ok || !p.dropped(t.nodes[n].line) {
			break
		}
		if other := t.twin(p, n); other {
			break
		}
		id, changed = t.nodes[n].parent, true
		if next, ok := p.planned(t.nodes[n].line, t.path); ok {
			id = ""
			if next[0] == '"' {
				id = unquote(next)
			}
		}
	}
	return id, changed
}

// twin reports whether a record with the same id stays.
func (t *tree) twin(p *plan, n int) bool {
	for m, at := range t.nodes {
		if m != n && at.id == t.nodes[n].id && !p.dropped(at.line) {
			return true
		}
	}
	return false
}
