package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// leading are the folders that must be synced before a new file at path is sure
// to be found after a loss of power: its own, and those in which the missing ones
// of its folders are about to be made.
func leading(path string) (dirs []string) {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if exists(dir) || dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

// syncFolders makes durable which files the folders have. Not every system can,
// and not every folder may be read: only a disk that fails is an error.
func syncFolders(dirs ...string) error {
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		err = f.Sync()
		f.Close()
		if errors.Is(err, syscall.EIO) {
			return err
		}
	}
	return nil
}

// unfinished is the ending of a copy that is not whole yet.
const unfinished = ".part"

// leftFor is how old the copy of a dead process must be before it is swept away: a
// living one has a moment in which it does not hold the lock yet.
const leftFor = time.Minute

// sweep deletes what processes that died while they made a copy left in the folder
// of the project.
func (s Store) sweep(now time.Time) {
	entries, _ := os.ReadDir(s.folder())
	for _, e := range entries {
		name, cut := strings.CutSuffix(e.Name(), ".jsonl"+unfinished)
		info, err := e.Info()
		if path := s.path(name) + unfinished; cut && err == nil && now.Sub(info.ModTime()) > leftFor && !InUse(path) {
			os.Remove(path)
			os.Remove(beside(path, signature))
			if !exists(s.path(name)) {
				FilesOf(s.path(name)).Remove()
			}
		}
	}
}
