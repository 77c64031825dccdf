package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// delimiter stands between the routing parts and the signature.
var delimiter = []byte("<IDS|MSG>")

// Why a message was refused; [Signer.Parse] wraps one of them.
var (
	ErrSignature = errors.New("bad signature")
	ErrMalformed = errors.New("malformed message")
)

// Header names a message: who sent it, when, and what it is. Version is the
// protocol version of the sender. SubshellID is set only by front ends that use
// subshells.
type Header struct {
	MsgID      string `json:"msg_id"`
	Session    string `json:"session"`
	Username   string `json:"username"`
	Date       string `json:"date"`
	MsgType    string `json:"msg_type"`
	Version    string `json:"version"`
	SubshellID string `json:"subshell_id,omitempty"`
}

// Message is one Jupyter message with its JSON parts kept as they came: RawHeader
// is copied into the parent_header of every answer, byte for byte.
type Message struct {
	// IDs are the parts before the delimiter: a topic on iopub, else usually empty,
	// because the socket keeps the route.
	IDs       [][]byte
	Header    Header
	RawHeader json.RawMessage
	Parent    json.RawMessage
	Metadata  json.RawMessage
	Content   json.RawMessage
	// Buffers are binary parts after the content; comm messages use them. They are
	// not signed.
	Buffers [][]byte
}

// Signer makes and checks the signatures of one connection file.
type Signer struct{ key []byte }

// NewSigner takes signature_scheme and key of a connection file. The only scheme is
// hmac-sha256, which is every front end's default; an empty key means that messages
// are not signed.
func NewSigner(scheme, key string) (*Signer, error) {
	if key != "" && scheme != "" && scheme != "hmac-sha256" {
		return nil, fmt.Errorf("kernel/wire: signature scheme %q, only hmac-sha256 is known", scheme)
	}
	return &Signer{key: []byte(key)}, nil
}

// sign is the hexadecimal HMAC over header, parent header, metadata and content.
func (s *Signer) sign(parts [][]byte) []byte {
	if len(s.key) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		mac.Write(p)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}

// Parse takes the parts of a multipart message apart and checks the signature in
// constant time before any JSON is read. The message aliases parts.
func (s *Signer) Parse(parts [][]byte) (*Message, error) {
	at := -1
	for i, p := range parts {
		if bytes.Equal(p, delimiter) {
			at = i
			break
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("kernel/wire: %w: no delimiter in %d parts", ErrMalformed, len(parts))
	}
	rest := parts[at+1:]
	if len(rest) < 5 {
		return nil, fmt.Errorf("kernel/wire: %w: %d parts after the delimiter, needed are 5", ErrMalformed, len(rest))
	}
	if len(s.key) > 0 && !hmac.Equal(s.sign(rest[1:5]), rest[0]) {
		return nil, fmt.Errorf("kernel/wire: %w", ErrSignature)
	}
	m := &Message{IDs: parts[:at], RawHeader: rest[1], Parent: rest[2], Metadata: rest[3], Content: rest[4], Buffers: rest[5:]}
	if err := json.Unmarshal(rest[1], &m.Header); err != nil {
		return nil, fmt.Errorf("kernel/wire: %w: header: %v", ErrMalformed, err)
	}
	if m.Header.MsgType == "" {
		return nil, fmt.Errorf("kernel/wire: %w: header without msg_type", ErrMalformed)
	}
	for _, p := range []struct {
		name string
		body []byte
	}{{"parent_header", m.Parent}, {"metadata", m.Metadata}, {"content", m.Content}} {
		if b := bytes.TrimLeft(p.body, " \t\r\n"); len(b) == 0 || b[0] != '{' || !json.Valid(b) {
			return nil, fmt.Errorf("kernel/wire: %w: %s is not a JSON object", ErrMalformed, p.name)
		}
	}
	return m, nil
}

// Parts is the multipart form of m: IDs, delimiter, signature, the four JSON parts,
// buffers. Empty RawHeader means that Header is encoded; the other empty JSON parts
// are sent as {}.
func (s *Signer) Parts(m *Message) ([][]byte, error) {
	header := []byte(m.RawHeader)
	if len(header) == 0 {
		var err error
		if header, err = json.Marshal(m.Header); err != nil {
			return nil, fmt.Errorf("kernel/wire: header: %w", err)
		}
	}
	signed := [][]byte{header, orEmpty(m.Parent), orEmpty(m.Metadata), orEmpty(m.Content)}
	parts := make([][]byte, 0, len(m.IDs)+6+len(m.Buffers))
	parts = append(parts, m.IDs...)
	parts = append(parts, delimiter, s.sign(signed))
	parts = append(parts, signed...)
	return append(parts, m.Buffers...), nil
}

func orEmpty(b []byte) []byte {
	if len(b) == 0 {
		return []byte("{}")
	}
	return b
}
