package builtin

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// markdown turns HTML into text that keeps headings, lists, links, tables and
// code. It goes from tag to tag and makes no tree of them: its time grows with
// the size of a page, however deep that is and whatever is not closed in it.
type markdown struct {
	base  *url.URL
	title string

	out    []byte
	gap    int    // line ends owed before the next text: 1 ends a line, 2 a paragraph
	blank  bool   // a blank is owed
	mark   string // begins the next line, such as "## " or "- "
	pre    int    // how deep in preformatted text
	quotes int
	lists  []int // the last number of each open list, -1 where it has none
	tables int
	row    bool // the row of a table has a cell already
	cell   bool // a cell has begun and has no text yet
	link   *openLink

	skip  string // the element that is left out, with all in it
	depth int    // of that element in itself
}

type openLink struct {
	at   int // in out, of the bracket
	href string
}

// htmlBlocks are the elements that begin and end lines, with the line ends that
// they owe.
var htmlBlocks = map[string]int{
	"address": 1, "article": 2, "aside": 2, "blockquote": 2, "body": 1, "caption": 1, "center": 1, "dd": 1, "details": 2, "dialog": 2,
	"div": 1, "dl": 2, "dt": 1, "fieldset": 1, "figcaption": 1, "figure": 2, "footer": 2, "form": 1, "h1": 2, "h2": 2, "h3": 2, "h4": 2,
	"h5": 2, "h6": 2, "header": 2, "hgroup": 2, "hr": 2, "legend": 1, "li": 1, "main": 2, "menu": 2, "nav": 2, "ol": 2, "option": 1,
	"p": 2, "pre": 2, "section": 2, "summary": 1, "table": 2, "tbody": 1, "tfoot": 1, "thead": 1, "tr": 1, "ul": 2,
}

// leftOut are the elements whose content is not text for a reader.
var leftOut = []string{
	"script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "audio", "video", "select", "datalist", "noembed", "noframes",
}

// hideable are the elements that are left out if they say that they are hidden.
// Their ends cannot be omitted, so that no more is lost than what they hold.
var hideable = []string{"div", "span", "section", "aside", "article", "ul", "table"}

// fromHTML returns the title and the text of a page that lies at base.
func fromHTML(data []byte, base *url.URL) (title, text string) {
	m := markdown{base: base}
	z := html.NewTokenizer(bytes.NewReader(data))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken: // the end: everything is in memory
			m.endLink()
			return m.title, strings.TrimSpace(string(m.out))
		case html.TextToken:
			if m.skip == "" {
				m.text(string(z.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			attrs := map[string]string{}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if _, ok := attrs[string(key)]; !ok {
					attrs[string(key)] = string(value)
				}
			}
			if tag == "title" && m.title == "" && m.skip == "" {
				if z.Next() == html.TextToken {
					m.title = strings.Join(strings.Fields(string(z.Text())), " ")
				}
				continue
			}
			m.start(tag, attrs, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			m.end(string(name))
		}
	}
}

func (m *markdown) start(tag string, attrs map[string]string, closed bool) {
	if m.skip != "" {
		if tag == m.skip && !closed {
			m.depth++
		}
		return
	}
	_, hidden := attrs["hidden"]
	hidden = hidden || strings.Contains(strings.ReplaceAll(attrs["style"], " ", ""), "display:none")
	if !closed && (slices.Contains(leftOut, tag) || hidden && slices.Contains(hideable, tag)) {
		m.skip, m.depth = tag, 1
		return
	}
	m.owe(tag)
	switch tag {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		m.mark = strings.Repeat("#", int(tag[1]-'0')) + " "
	case "br":
		if m.pre > 0 {
			m.text("\n")
		} else {
			m.gap = max(m.gap, 1)
		}
	case "hr":
		m.word("---")
		m.gap = 2
	case "ul", "menu":
		m.lists = append(m.lists, -1)
	case "ol":
		m.lists = append(m.lists, 0)
	case "li":
		m.item()
	case "blockquote":
		m.quotes++
	case "table":
		m.tables++
	case "tr":
		m.row = false
	case "td", "th":
		if m.row {
			m.gap, m.blank = 0, false
			m.out = append(m.out, " | "...)
		}
		m.row, m.cell = true, true
	case "pre":
		m.flush()
		m.out = append(m.out, "```\n"...)
		m.pre++
	case "code":
		m.tick()
	case "a":
		m.endLink()
		if href := m.address(attrs["href"]); href != "" && m.pre == 0 {
			m.flush()
			m.link = &openLink{len(m.out), href}
			m.out = append(m.out, '[')
		}
	case "img":
		if alt, src := strings.Join(strings.Fields(attrs["alt"]), " "), m.address(attrs["src"]); alt != "" && src != "" {
			m.word("![" + alt + "](" + src + ")")
		}
	}
}

func (m *markdown) end(tag string) {
	if m.skip != "" {
		if tag == "body" || tag == "html" {
			m.skip = ""
		} else if tag == m.skip {
			if m.depth--; m.depth == 0 {
				m.skip = ""
			}
		}
		return
	}
	switch tag {
	case "h1", "h2", "h3", "h4", "h5", "h6", "li":
		m.mark = "" // of what had no text
	case "ul", "ol", "menu":
		if n := len(m.lists); n > 0 {
			m.lists = m.lists[:n-1]
		}
	case "blockquote":
		m.quotes = max(0, m.quotes-1)
	case "table":
		m.tables = max(0, m.tables-1)
		m.cell = false
	case "pre":
		if m.pre > 0 {
			if m.pre--; !bytes.HasSuffix(m.out, []byte("\n")) {
				m.out = append(m.out, '\n')
			}
			m.out = append(m.out, "```"...)
		}
	case "code":
		if m.pre == 0 {
			m.out = append(m.out, '`')
		}
	case "a":
		m.endLink()
	}
	m.owe(tag)
}

// owe notes the line ends around a block. In lists, tables and links they are
// fewer.
func (m *markdown) owe(tag string) {
	n, ok := htmlBlocks[tag]
	if tag == "tr" || tag == "table" {
		m.cell = false
	}
	if !ok || m.cell {
		return
	}
	if len(m.lists) > 0 || m.tables > 0 {
		n = 1
	}
	if m.gap = max(m.gap, n); m.link != nil {
		m.gap, m.blank = 0, true
	}
}

func (m *markdown) item() {
	m.mark = "- "
	if n := len(m.lists); n > 0 && m.lists[n-1] >= 0 {
		m.lists[n-1]++
		m.mark = fmt.Sprintf("%d. ", m.lists[n-1])
	}
}

func (m *markdown) tick() {
	if m.pre == 0 {
		m.flush()
		m.out = append(m.out, '`')
	}
}

// text writes text in which white space counts only between words.
func (m *markdown) text(s string) {
	if m.pre > 0 {
		m.out = append(m.out, s...)
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		m.blank = m.blank || s != ""
		return
	}
	m.blank = m.blank || strings.TrimLeft(s, " \t\r\n\f") != s
	for _, w := range words {
		m.word(w)
		m.blank = true
	}
	m.blank = strings.TrimRight(s, " \t\r\n\f") != s
}

func (m *markdown) word(w string) {
	m.flush()
	m.out = append(m.out, w...)
}

// flush writes what is owed before a text.
func (m *markdown) flush() {
	m.cell = false
	if m.gap == 0 && m.mark == "" {
		if n := len(m.out); m.blank && n > 0 && !bytes.ContainsRune([]byte(" \n["), rune(m.out[n-1])) {
			m.out = append(m.out, ' ')
		}
		m.blank = false
		return
	}
	if len(m.out) > 0 && m.gap > 0 {
		m.out = append(m.out, "\n\n"[:min(m.gap, 2)]...)
	}
	indent := 2 * len(m.lists)
	if m.mark != "" {
		indent = max(0, indent-2)
	}
	m.out = append(m.out, strings.Repeat("> ", min(m.quotes, 8))...)
	m.out = append(m.out, strings.Repeat(" ", min(indent, 20))...)
	m.out = append(m.out, m.mark...)
	m.gap, m.blank, m.mark = 0, false, ""
}

func (m *markdown) endLink() {
	l := m.link
	if l == nil {
		return
	}
	m.link = nil
	switch text := strings.TrimSpace(string(m.out[l.at+1:])); text {
	case "":
		m.out = m.out[:l.at]
	case l.href:
		m.out = append(m.out[:l.at], text...)
	default:
		m.out = append(m.out, "]("+l.href+")"...)
	}
}

// address makes a whole address of a reference, or nothing of one that leads
// nowhere: into the page itself, to a script, or into data.
func (m *markdown) address(ref string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || ref[0] == '#' {
		return ""
	}
	u, err := m.base.Parse(ref)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	if ref = u.String(); len(ref) > 500 {
		return ""
	}
	return ref
}
