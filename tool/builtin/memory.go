package builtin

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"sync"
)

// memory knows which files the model has seen, and in which state. It is what
// keeps Edit and Write from changing what the model does not know.
type memory struct {
	mu    sync.Mutex
	marks map[string]*mark // by absolute path
	clock int
}

// digest tells one state of a file from another, which a date cannot.
type digest [sha256.Size]byte

// mark is what the model knows of one state of a file.
type mark struct {
	shown  string
	sum    digest
	total  int  // lines
	whole  bool // the model wrote all of it
	seen   []span
	edited bool
	last   int // when it was touched last, by the memory's clock
}

// span is what one call showed: lines from to to, counted from 1.
type span struct {
	call     string
	from, to int
}

// File is a file that the model has read or changed.
type File struct {
	Path   string // as the model knows it
	Edited bool
}

// Files lists the files that the model has read or changed, the latest last, so
// that a shortened conversation can be given them again.
func (w *Workspace) Files() []File {
	m := &w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	var marks []*mark
	for _, k := range m.marks {
		marks = append(marks, k)
	}
	slices.SortFunc(marks, func(a, b *mark) int { return cmp.Compare(a.last, b.last) })
	files := make([]File, len(marks))
	for i, k := range marks {
		files[i] = File{k.shown, k.edited}
	}
	return files
}

// Forget takes back what a call of Read has shown. It is for answers that were
// retracted: the model will not remember what it read in them.
func (w *Workspace) Forget(callID string) {
	m := &w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, k := range m.marks {
		k.seen = slices.DeleteFunc(k.seen, func(s span) bool { return s.call == callID })
		if len(k.seen) == 0 && !k.whole && !k.edited {
			delete(m.marks, path)
		}
	}
}

// read notes that lines of a file were shown. What was seen of another state of
// the file counts no more.
func (m *memory) read(p place, sum digest, total int, s span) {
	if p.area.readOnly {
		return // it cannot be changed, and what it says was shown before
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	k := m.marks[p.abs]
	if k == nil {
		k = &mark{}
		m.marks[p.abs] = k
	}
	if k.sum != sum {
		*k = mark{sum: sum, edited: k.edited}
	}
	k.shown, k.total, k.last = p.shown, total, m.clock
	k.seen = append(k.seen, s)
}

// changed notes the state in which we left a file. After an edit the model knows
// all of it only if it did before; whole says that it does.
func (m *memory) changed(p place, sum digest, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	m.marks[p.abs] = &mark{shown: p.shown, sum: sum, whole: whole, edited: true, last: m.clock}
}

// check returns an error unless the model knows the state of the file with this
// sum: some of it for an edit, all of it to be replaced.
func (m *memory) check(p place, sum digest, all bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.marks[p.abs]
	switch {
	case k == nil:
		return refuse(ClassUnread, "the file exists and was not read yet. Read it first; nothing was changed")
	case k.sum != sum:
		return refuse(ClassStale, "the file has changed since it was read, maybe by the user or by a command. Read it again; nothing was changed")
	case all && !k.complete():
		return refuse(ClassUnread, "only a part of the file was read, and writing it whole would lose the rest. "+
			"Read the rest first, or use Edit; nothing was changed")
	}
	return nil
}

// complete reports whether the model has seen every line.
func (k *mark) complete() bool {
	if k.whole {
		return true
	}
	spans := slices.SortedFunc(slices.Values(k.seen), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	next := 1
	for _, s := range spans {
		if s.from > next {
			return false
		}
		next = max(next, s.to+1)
	}
	return next > k.total
}

// knowsAll reports whether the model has seen all of the file in its last state.
func (m *memory) knowsAll(p place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.marks[p.abs]
	return k != nil && k.complete()
}
