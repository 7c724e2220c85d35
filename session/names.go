package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Find looks for the file of a session by its ID, the name that people gave it,
// or the beginning of its ID: in this project first, then in all others. Names
// are those of this project.
func (s Store) Find(text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("find session %q: %w", text, ErrNotFound)
	}
	ways := []func(string) (string, error){s.byName, s.byBeginning}
	if likeID(text) { // then looking through all journals for a name comes last
		ways[0], ways[1] = ways[1], ways[0]
	}
	for _, way := range append([]func(string) (string, error){s.byID}, ways...) {
		if path, err := way(text); err == nil || !errors.Is(err, ErrNotFound) {
			return path, err
		}
	}
	return "", fmt.Errorf("find session %q: %w", text, ErrNotFound)
}

// likeID reports whether text can be taken for the beginning of an ID.
func likeID(text string) bool {
	return len(text) >= 6 && strings.Trim(text, "0123456789abcdef-") == ""
}

func (s Store) byID(id string) (string, error) { return s.glob(id, ".jsonl") }

func (s Store) byBeginning(id string) (string, error) { return s.glob(id, "*.jsonl") }

func (s Store) glob(id, rest string) (string, error) {
	if strings.ContainsAny(id, "/\\*?[") {
		return "", ErrNotFound
	}
	for _, dir := range []string{s.folder(), filepath.Join(s.Dir, "*")} {
		found, _ := filepath.Glob(filepath.Join(dir, id+rest))
		if !IsChild(id) { // whoever means a sub-agent writes so
			found = slices.DeleteFunc(found, func(path string) bool { return IsChild(filepath.Base(path)) })
		}
		if len(found) == 1 || len(found) > 1 && rest == ".jsonl" {
			return found[0], nil
		}
		if len(found) > 1 {
			return "", fmt.Errorf("find session %q: %d sessions begin so; give more of the id", id, len(found))
		}
	}
	return "", ErrNotFound
}

// byName reads the journals of the project for their names.
func (s Store) byName(name string) (string, error) {
	list, err := s.List()
	if err != nil {
		return "", err
	}
	var found []string
	for _, one := range list {
		if nameOf(one.Path) == name {
			found = append(found, one.Path)
		}
	}
	switch len(found) {
	case 0:
		return "", ErrNotFound
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("find session %q: %d sessions have this name; give the id", name, len(found))
}

// nameOf is the name of the session at path; empty without one.
func nameOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	name := ""
	// A journal that cannot be read to its end has the name that was found so far.
	_ = scan(f, func(_ span, line []byte) error {
		if h, _, ok := glance(line); ok && h.kind != TypeName {
			return nil
		}
		if e, err := Decode(line); err == nil {
			if b, ok := e.Body.(*Name); ok {
				name = b.Name
			}
		}
		return nil
	})
	return name
}
