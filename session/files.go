package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Absent stands in [FileSaved] for the hash of a file that was not there.
const Absent = "absent"

// Files keeps what files held before a tool changed them: one file a content,
// named by its hash, in a folder beside the journal.
type Files struct{ dir string }

// FilesOf returns the kept files of the session whose journal is at path.
func FilesOf(path string) Files { return Files{beside(path, ".files")} }

// Hash is the name of a content.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Keep stores a content and returns its hash. It is on disk when Keep returns.
func (f Files) Keep(content []byte) (string, error) {
	hash := Hash(content)
	path := filepath.Join(f.dir, hash)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(content)) {
		return hash, nil
	}
	ways := leading(path)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return "", fmt.Errorf("keep file: %w", err)
	}
	part, err := os.CreateTemp(f.dir, "part-")
	if err != nil {
		return "", fmt.Errorf("keep file: %w", err)
	}
	_, err = part.Write(content)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err == nil {
		err = syncFolders(ways...)
	}
	if err != nil {
		os.Remove(part.Name())
		return "", fmt.Errorf("keep file: %w", err)
	}
	return hash, nil
}

// Get returns the content of this hash; what is on disk must still have it.
func (f Files) Get(hash string) ([]byte, error) {
	if b, err := hex.DecodeString(hash); err != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("get kept file: %q is no hash", hash)
	}
	content, err := os.ReadFile(filepath.Join(f.dir, hash))
	if err != nil {
		return nil, fmt.Errorf("get kept file: %w", err)
	}
	if Hash(content) != hash {
		return nil, fmt.Errorf("get kept file %s: %w", hash, errChanged)
	}
	return content, nil
}

var errChanged = errors.New("its content was changed")

// share gives to what f keeps: as a second name of the same file, or as a copy.
func (f Files) share(to Files) error {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ways := leading(filepath.Join(to.dir, "any"))
	if err := os.MkdirAll(to.dir, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if os.Link(filepath.Join(f.dir, e.Name()), filepath.Join(to.dir, e.Name())) == nil {
			continue
		}
		content, err := f.Get(e.Name())
		if err != nil {
			continue // it is of no use here either
		}
		if _, err := to.Keep(content); err != nil {
			return err
		}
	}
	return syncFolders(ways...)
}

// Remove deletes all that f keeps.
func (f Files) Remove() error { return os.RemoveAll(f.dir) }
