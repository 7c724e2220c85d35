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

func (s Store) byID(id string) (string, error) {
	if strings.ContainsAny(id, "/\\") {
		return "", ErrNotFound
	}
	for _, dir := range append([]string{s.folder()}, s.projects()...) {
		if path := filepath.Join(dir, id+".jsonl"); exists(path) {
			return path, nil
		}
	}
	return "", ErrNotFound
}

func (s Store) byBeginning(id string) (string, error) {
	own := journals(s.folder(), id)
	var all []string
	for _, dir := range s.projects() {
		all = append(all, journals(dir, id)...)
	}
	for _, found := range [][]string{own, all} {
		if !IsChild(id) { // whoever means a sub-agent writes so
			found = slices.DeleteFunc(found, func(path string) bool { return IsChild(filepath.Base(path)) })
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return "", fmt.Errorf("find session %q: %d sessions begin so: %w", id, len(found), ErrAmbiguous)
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
	return "", fmt.Errorf("find session %q: %d sessions have this name: %w", name, len(found), ErrAmbiguous)
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
