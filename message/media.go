package message

import (
	"fmt"
	"slices"
)

// limitMedia replaces the media that no request could carry: each one that is
// too large, and the oldest of those that are too many.
func (r *repairer) limitMedia() {
	lim := r.rules.Media
	if lim == (MediaLimits{}) {
		return
	}
	total := 0
	r.eachMedium(func(*turn, *Block) string { total++; return "" })
	many := lim.ManyCount > 0 && total > lim.ManyCount
	surplus := 0
	if lim.Count > 0 {
		surplus = total - lim.Count
	}
	r.eachMedium(func(_ *turn, b *Block) string {
		side := max(b.Media.Width, b.Media.Height)
		surplus--
		switch {
		case lim.Bytes > 0 && len(b.Media.Data) > lim.Bytes:
			return fmt.Sprintf("it has %d bytes, %d are possible", len(b.Media.Data), lim.Bytes)
		case lim.Pixels > 0 && side > lim.Pixels:
			return fmt.Sprintf("it has %d pixels a side, %d are possible", side, lim.Pixels)
		case many && side > lim.ManyPx:
			return fmt.Sprintf("it has %d pixels a side, %d are possible beside so many images", side, lim.ManyPx)
		case surplus >= 0:
			return "a request can carry no more, and this was among the oldest"
		}
		return ""
	})
}

// eachMedium calls decide for every medium, oldest first, and puts a text that
// names the reason in the place of those for which it returns one.
func (r *repairer) eachMedium(decide func(*turn, *Block) string) {
	for i := range r.turns {
		t := &r.turns[i]
		for j := range t.blocks {
			t.blocks[j] = r.medium(t, t.blocks[j], decide)
			content := t.blocks[j].Content
			for k := range content {
				if now := r.medium(t, content[k], decide); now.Type != content[k].Type {
					content = slices.Clone(content) // the source stays as it is
					content[k] = now
					t.blocks[j].Content, t.blocks[j].Raw = content, nil
				}
			}
		}
	}
}

func (r *repairer) medium(t *turn, b Block, decide func(*turn, *Block) string) Block {
	if b.Type != Image && b.Type != Document || b.Media == nil {
		return b
	}
	why := decide(t, &b)
	if why == "" {
		return b
	}
	r.fix(t, RuleMediaSize, "%s replaced by text: %s", b.Type, why)
	return Block{Type: Text, Text: fmt.Sprintf(removedMedium, b.Type, why)}
}
