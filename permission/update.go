package permission

import (
	"fmt"
	"slices"
)

// Update is a change of a policy, in the words that dialogs, hooks and programs
// around the agent use for it.
type Update struct {
	Type        string       `json:"type"` // addRules, replaceRules, removeRules, setMode, addDirectories, removeDirectories
	Rules       []UpdateRule `json:"rules,omitempty"`
	Behavior    Behavior     `json:"behavior,omitempty"` // of the rules
	Mode        Mode         `json:"mode,omitempty"`
	Directories []string     `json:"directories,omitempty"`
	Destination string       `json:"destination,omitempty"` // userSettings, projectSettings, localSettings, session, cliArg
}

// UpdateRule is a rule within an update.
type UpdateRule struct {
	ToolName    string `json:"toolName"`
	RuleContent string `json:"ruleContent,omitempty"`
}

// Remember is the update that allows rules for the rest of the session.
func Remember(rules []Rule) Update {
	u := Update{Type: "addRules", Behavior: Allow, Destination: "session"}
	for _, r := range rules {
		u.Rules = append(u.Rules, UpdateRule{r.Tool, r.Specifier})
	}
	return u
}

// Apply returns a policy with the change; the old one stays as it is, so that
// decisions under way are not disturbed. A replacement concerns the rules that
// came from the same destination.
func (p *Policy) Apply(u Update) (*Policy, error) {
	next := *p
	switch u.Type {
	case "setMode":
		mode, err := ParseMode(string(u.Mode))
		if err != nil {
			return p, fmt.Errorf("update permissions: %w", err)
		}
		next.Mode = mode
		return &next, nil
	case "addDirectories":
		next.Dirs = slices.Concat(p.Dirs, u.Directories)
		return &next, nil
	case "removeDirectories":
		next.Dirs = slices.DeleteFunc(slices.Clone(p.Dirs), func(d string) bool { return slices.Contains(u.Directories, d) })
		return &next, nil
	case "addRules", "replaceRules", "removeRules":
		if err := next.applyRules(u); err != nil {
			return p, err
		}
		return &next, nil
	}
	return p, fmt.Errorf("update permissions: unknown type %q; use addRules, replaceRules, removeRules, setMode, addDirectories or removeDirectories", u.Type)
}

func (p *Policy) applyRules(u Update) error {
	var rules []Rule
	for _, content := range u.Rules {
		r, err := ParseRule(Rule{Tool: content.ToolName, Specifier: content.RuleContent}.String())
		if err != nil {
			return fmt.Errorf("update permissions: %w", err)
		}
		if u.Behavior == Allow && r.strict() {
			return fmt.Errorf("update permissions: the rule %s may only ask or deny; name the tool to allow it", r)
		}
		r.Source = u.Destination
		rules = append(rules, r)
	}
	lists := map[Behavior]*[]Rule{Allow: &p.Allow, Ask: &p.Ask, Deny: &p.Deny}
	at, ok := lists[u.Behavior]
	if !ok {
		return fmt.Errorf("update permissions: unknown behavior %q; use allow, ask or deny", u.Behavior)
	}
	kept := slices.DeleteFunc(slices.Clone(*at), func(r Rule) bool {
		if u.Type == "removeRules" {
			return slices.ContainsFunc(rules, func(gone Rule) bool { return gone.String() == r.String() })
		}
		return u.Type == "replaceRules" && r.Source == u.Destination
	})
	if u.Type != "removeRules" {
		kept = append(kept, rules...)
	}
	*at = kept
	return nil
}
