package builtin

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var pageURL = &url.URL{Scheme: "https", Host: "example.com", Path: "/docs/page"}

func TestFromHTML(t *testing.T) {
	for name, c := range map[string]struct{ html, want string }{
		"paragraphs":  {"<p>One\n  two<p>three <b>four</b>five", "One two\n\nthree fourfive"},
		"headings":    {"<h1> A <i>b</i></h1>text<h3></h3><p>more", "# A b\n\ntext\n\nmore"},
		"breaks":      {"a<br>b<br/>c<hr>d", "a\nb\nc\n\n---\n\nd"},
		"lists":       {"<ul><li>a<ul><li>b</ul><li><p>c</p><p>d</p></ul>e", "- a\n  - b\n- c\n  d\n\ne"},
		"numbers":     {"<ol><li>a<li>b</ol>", "1. a\n2. b"},
		"links":       {`<a href="x">X</a>, <a href="#f">F</a>, <a href="javascript:a()">J</a>, <a href="/y"></a><a href="https://e.com/">https://e.com/</a>`, "[X](https://example.com/docs/x), F, J, https://e.com/"},
		"block links": {`<a href="/c"><div>Card</div><p>More</p></a>`, "[Card More](https://example.com/c)"},
		"open link":   {`<a href="/c">one<a href="/d">two`, "[one](https://example.com/c)[two](https://example.com/d)"},
		"images":      {`<img src="i.png" alt="a  b"><img src=x.png><img src="data:image/png;base64,AA" alt=d>`, "![a b](https://example.com/docs/i.png)"},
		"code":        {"Run <code>go  test</code> now<pre>a\n  b &lt;c&gt;\n</pre>end", "Run `go test` now\n\n```\na\n  b <c>\n```\n\nend"},
		"quote":       {"<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc"},
		"table":       {"<table><tr><th>A<th>B<tr><td><p>1</p><td>2</table>after", "A | B\n1 | 2\n\nafter"},
		"left out":    {"a<script>if (a<b) {}</script><style>x</style><noscript><p>n</noscript><svg><text>s</text></svg><template>t</template><!-- c -->b", "ab"},
		"hidden":      {`a<div hidden>x<div>y</div>z</div><span style="color:red; display: none">w</span>b`, "ab"},
		"unclosed":    {"<body>a<svg><text>s</body>b", "ab"},
		"entities":    {"&lt;p&gt; &amp;amp; &eacute;&#x1F600;&nosuch;", "<p> &amp; é😀&nosuch;"},
		"no html":     {"just text", "just text"},
		"stray ends":  {"</p></ul></pre></blockquote></a></li>a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := fromHTML([]byte(c.html), pageURL)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if title, text := fromHTML([]byte("<head><title> A\n &amp; B </title></head><p>x<title>y</title>"), pageURL); title != "A & B" || strings.Contains(text, "A &") {
		t.Errorf("title %q, text %q", title, text)
	}
}

// However a page is nested, its text is not much larger than it.
func TestFromHTMLDeep(t *testing.T) {
	for _, tag := range []string{"<div>", "<b>", "<ul><li>", "<blockquote>", "<table><tr><td>", "<a href=x>", "<svg>", "<pre>", "<"} {
		_, text := fromHTML([]byte(strings.Repeat(tag, 200_000)+"end"), pageURL)
		if len(text) > 10_000_000 {
			t.Errorf("%s becomes %d bytes", tag, len(text))
		}
	}
}

func FuzzFromHTML(f *testing.F) {
	for _, s := range []string{"<a href=x>y</a>", "<ul><li>a<ol><li>b</ul>c", "<pre><code>a</pre>", "<table><td>a<td>b", "<title>", "<div hidden><p>x", "\xff<h1>\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, page string) {
		title, text := fromHTML([]byte(page), pageURL)
		if utf8.ValidString(page) && !utf8.ValidString(title+text) {
			t.Errorf("%q became %q, %q", page, title, text)
		}
	})
}
