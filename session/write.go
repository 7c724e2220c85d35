package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// openJournal opens or creates the file at path for appending and takes its
// lock. disk, if there is one, comes between the journal and the file.
func openJournal(path string, disk func(File) File) (*Journal, error) {
	ways := leading(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if err := lockSoon(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), f.Close())
	}
	j := &Journal{path: path, file: f, size: info.Size()}
	if disk != nil {
		j.file = disk(f)
	} else {
		j.ways = ways
		j.length = func() int64 {
			if now, err := f.Stat(); err == nil {
				return now.Size()
			}
			return j.size
		}
	}
	j.gone = func() bool {
		there, err := os.Stat(j.path)
		return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, there)
	}
	if j.gone() { // who had the lock before deleted it
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, ErrLocked), f.Close())
	}
	j.abandoned = j.size > 0 && Abandoned(path)
	j.sign()
	if j.size > 0 {
		last := make([]byte, 1)
		_, err := f.ReadAt(last, j.size-1)
		j.torn = err == nil && last[0] != '\n'
	}
	return j, nil
}

// Path is the file of the journal.
func (j *Journal) Path() string { return j.path }

// Abandoned reports whether the process that wrote the journal before this one
// ended without closing it, as far as that can be seen.
func (j *Journal) Abandoned() bool { return j.abandoned }

// mostBehind bounds what waits for a disk that takes nothing, in bytes.
const mostBehind = 64 << 20

// ErrGone says that the file of a journal was deleted or moved while it was in
// use: what is written to it, nobody finds.
var ErrGone = errors.New("the file of the session is no longer where it was")

// ErrShortened says that something else took events out of a journal that was in
// use: what followed would stand behind a gap.
var ErrShortened = errors.New("something else shortened the file of the session")

// Append writes e with one write. It does not reach the disk before
// [Journal.Sync]. An event that cannot be written leaves no trace in the file
// and is kept: the next Append tries it again, before its own.
func (j *Journal) Append(e Event) error {
	line, err := Encode(e)
	if err != nil {
		return err
	}
	if j.dead != nil {
		return j.dead
	}
	j.appended = true
	if j.bytes += len(line); j.bytes > mostBehind {
		j.behind = nil
		return j.die("write", fmt.Errorf("%d MB wait for the disk, and more are not kept", mostBehind>>20))
	}
	j.behind = append(j.behind, line)
	if err := j.foreign(); err != nil {
		return err
	}
	for len(j.behind) > 0 {
		if err := j.write(j.behind[0]); err != nil {
			j.unsign()
			return fmt.Errorf("write journal %s: %w", j.path, err)
		}
		if len(j.behind) == 1 && j.unsigned {
			j.sign()
		}
		j.bytes -= len(j.behind[0])
		j.behind = j.behind[1:]
	}
	return nil
}

// foreign looks for what something else did to the file, which the lock should
// have kept it from.
func (j *Journal) foreign() error {
	if j.length == nil {
		return nil
	}
	switch n := j.length(); {
	case n < j.size:
		return j.die("write", ErrShortened)
	case n > j.size: // what stands there now ends anyhow
		j.size, j.torn = n, true
	}
	return nil
}

// write appends one line, or takes back what was written of it.
func (j *Journal) write(line []byte) error {
	if j.torn {
		// What a crash left of a line stays, but alone on its line.
		line = append([]byte{'\n'}, line...)
	}
	n, err := j.file.Write(line)
	if err == nil {
		j.torn = false
		j.size += int64(n)
		return nil
	}
	if n > 0 && j.file.Truncate(j.size) != nil {
		j.torn = true // the part stays, and is skipped by whoever reads
		j.size += int64(n)
	}
	return err
}

// Sync makes everything that was appended durable, and the first time also that
// the file is where it is. After a failure the journal takes nothing more: nobody
// knows what of it is on disk.
func (j *Journal) Sync() error {
	switch {
	case j.dead != nil:
		return j.dead
	case j.gone != nil && j.gone():
		return j.die("sync", ErrGone)
	}
	if err := errors.Join(j.file.Sync(), syncFolders(j.ways...)); err != nil {
		return j.die("sync", err)
	}
	j.ways = nil
	return nil
}

// die ends the journal: what follows would stand behind a gap.
func (j *Journal) die(what string, err error) error {
	if !errors.Is(err, ErrGone) {
		j.unsign()
	}
	j.dead = fmt.Errorf("%s journal %s: %w", what, j.path, err)
	return j.dead
}

// Behind reports whether the file lacks events that were appended.
func (j *Journal) Behind() bool { return j.dead != nil || len(j.behind) > 0 }

// Close syncs and gives the lock back. A file into which nothing could be written
// does not stay.
func (j *Journal) Close() error {
	if j.size == 0 && j.length != nil && j.length() == 0 && !j.gone() {
		os.Remove(beside(j.path, signature))
		return errors.Join(os.Remove(j.path), j.file.Close())
	}
	err := j.Sync()
	// Who did nothing with a session that somebody else left leaves it so.
	if !errors.Is(err, ErrGone) && (j.appended || !j.abandoned) {
		os.Remove(beside(j.path, signature))
	}
	return errors.Join(err, j.file.Close())
}
