package fault

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const signaturePrefix = "fault-signature"

// sign makes the signature of a thinking block. It names the model and binds the text, so that it can
// be checked without memory: also after a restart, on a resumed conversation.
func sign(model, text string) string {
	sum := sha256.Sum256([]byte(model + "\x00" + text))
	plain := signaturePrefix + "|" + model + "|" + hex.EncodeToString(sum[:16])
	return base64.StdEncoding.EncodeToString([]byte(plain))
}

// signer names the model that made a signature; ok is false if no server of this kind made it.
func signer(signature string) (model string, ok bool) {
	plain, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return "", false
	}
	prefix, rest, _ := strings.Cut(string(plain), "|")
	end := strings.LastIndex(rest, "|")
	if prefix != signaturePrefix || end < 0 {
		return "", false
	}
	return rest[:end], true
}
