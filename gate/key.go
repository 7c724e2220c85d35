package gate

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Key names one limit: who is asked, on whose account, for what.
type Key struct {
	BaseURL string
	Account string // a key or the name of an account; it is never stored
	Model   string
}

// file is the path of the key's file in dir. The name is a hash with a salt of
// this directory, so that it tells nothing about the key, not even to somebody
// who guesses at it with the name alone.
func (k Key) file(dir string) (string, error) {
	salt, err := salt(dir)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, salt)
	fmt.Fprintf(mac, "%q %q %q", strings.TrimRight(k.BaseURL, "/"), k.Account, k.Model)
	return filepath.Join(dir, hex.EncodeToString(mac.Sum(nil)[:16])+".json"), nil
}

const saltSize = 32

// salt returns the salt of dir and makes it at the first use. Of many that make
// one at the same time the first wins: a link is made once, and whole.
func salt(dir string) ([]byte, error) {
	name := filepath.Join(dir, "salt")
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = makeSalt(dir, name)
	}
	if err == nil && len(bytes.TrimSpace(raw)) < saltSize/2 {
		err = fmt.Errorf("%s is damaged: remove it", name)
	}
	return raw, err
}

func makeSalt(dir, name string) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "salt-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	fresh := make([]byte, saltSize)
	rand.Read(fresh)
	_, err = f.Write([]byte(hex.EncodeToString(fresh)))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(name)
}
